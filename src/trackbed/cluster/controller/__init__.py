"""Applies Fabrics to a live cluster node by node, within the limits of each Fabric.

    objects      the fields that are read of Fabrics, Nodes and RailNodes
    slices       the plan of every node
    lock         the lock of slots, stored in the cluster
    stage        the stage of one node, and its message: a function of the cluster's state
    maintenance  nodes under maintenance by other operators
    decide       the next moves for all nodes: a function of their stages
    act          one move for one node, refused if the object has changed since it was read
    events       Kubernetes events about the moves
    drain        eviction of pods
    reporter     status updates of objects; report: their content
    stacks       when the stack of a Fabric is applied, where the command line allows it, and its condition
    stack_pass   one pass over the steps of a stack
    run          the controller itself, for as long as it leads

The cluster holds all state, so another controller can continue after a crash at any point.
"""
