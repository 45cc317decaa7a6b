"""Apply and diff on many hosts over SSH: each host is sent the program that it runs.

    campaign ──> run (ClusterShell, OpenSSH) ──> boot ──> node ──> host.transaction               on each host
     order ^        |
           └─ log <─┴─ outcome                                                                    on the control node

The whole apply runs on the host. An apply is a transaction: it records the state of the host, makes changes, compares
again, and rolls back if a step fails. Driven from the control node, it could lose the connection when the rollback is
needed, perhaps because of a change just made. So a host receives the program and its plan in one piece before anything
is changed, and needs no connection afterwards. After a kill -9, the next apply resumes from the record. The host
enforces its own time limit, by rolling back.

The host has a Python (3.9 or newer, see `interpreters`) and nothing else, so the modules that run there import the
standard library and each other; tests check that, and run them on each version. Their documents are read and written by
`fabric.documents`. msgspec is not sent: it is compiled for one Python version and one processor architecture.

Nothing is left behind, because nothing is stored: the program is in memory and disappears with its process, also after
kill -9. Only the undo record of apply is kept, below /var/lib/trackbed.

A proof (`proof_ssh`) sends a worker instead. It gets one sheet after the other on its connection, and ends with it.

Each host and run takes one process and one connection. Fan-out and timeouts are ClusterShell's. Keys,
users, gateways (ProxyJump) and host keys are OpenSSH's and come from the user's own configuration.
"""
