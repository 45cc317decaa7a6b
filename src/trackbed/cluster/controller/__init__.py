"""Carries a Fabric out in a living cluster: node by node, never more at once than the Fabric allows.

    objects      what is read of Fabrics, Nodes and RailNodes
    slices       the plan of every node, and the lock that is kept in the cluster
    stage        where one node stands, and why: a function of what the cluster says of it
    maintenance  nodes that others have in maintenance
    decide       what to do next with all nodes: a function of their stages
    act          one thing done to one node, only if nobody else was there first
    events       what is told of it where people look
    drain        pods asked to leave
    reporter     objects told how it stands; report: what they are told
    stacks       the stack that a Fabric names, where the command line allows it: when, and what is told of it
    stack_pass   one pass over its steps
    run          all of it, for as long as this process leads

There is no memory: whatever is known is read from the cluster, so a controller that is killed anywhere is followed by
one that goes on.
"""
