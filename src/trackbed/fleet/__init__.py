"""Apply and diff on many hosts over SSH: the same code that runs on one host, sent to each.

    campaign ──> run (ClusterShell, OpenSSH) ──> boot ──> node ──> hosts.apply, hosts.compare     on each host
     order ^        |
           └─ log <─┴─ outcome                                                                    on the control node

The whole apply runs on the host, not by remote control. An apply is a transaction: it writes down what was there, makes
changes, compares again, and puts everything back where something fails. Whoever does that from afar loses the hand that
puts things back in the very moment it is needed: when the connection breaks, perhaps because of a change just made. So
the host gets the program and its plan in one piece before anything is touched; from then on it needs nobody. A cut
connection changes nothing there, a kill -9 leaves the record that the next apply goes on from, and a time limit is kept
on the host itself, by putting everything back.

The host has python3 (3.11 or later) and nothing else, so the modules that run there import the standard library and
each other, which a test holds. Their documents are read and written by `fabric.documents`; msgspec stays on the control
node: it is compiled, and a built copy fits one Python version and one processor.

Nothing is left behind because nothing is stored: the archive lives in memory (memfd_create(2)) and is gone with its
process, also after kill -9. What apply itself keeps (its undo record below /var/lib/trackbed) it keeps as always.

One archive, one process and one connection for each host and run; fan-out and timeouts are ClusterShell's, keys,
users, gateways (ProxyJump) and host keys are OpenSSH's and come from the user's own configuration.
"""
