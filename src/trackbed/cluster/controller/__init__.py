"""The controller, which applies Fabrics to a live cluster node by node, within the limits of each Fabric.

    run                 the controller itself, for as long as it leads
    fabric_reconciler   reconciliation of one Fabric: reads the cluster, decides, acts, reports
    objects             fields of Fabrics, Nodes and RailNodes that the controller reads
    slices              the plan of every node
    lock                slots of the nodes, stored in the cluster
    revisions           good generations of a Fabric, for rollback
    stage               the stage of one node, and its message: a function of the node's objects
    maintenance         nodes under maintenance by other operators
    decide              the next moves for all nodes: a function of their stages
    act                 one move for one node, refused if the object has changed since it was read
    events              Kubernetes events about the moves
    drain               eviction of pods
    reporter            status updates of objects; report: their content
    stacks              passes over the stacks that the command line permits, and their condition
    stack_pass          one pass over the steps of a stack
    comparer            comparisons of a Fabric's nodes; comparison: their outcome; excerpts: the reports of agents
    pace                limits on concurrent requests, and intervals between passes
    metrics             metrics of roll-outs
    uninstall           removal of all objects of controller and webhook

The cluster holds all state, so another controller can continue after a crash at any point.
"""
