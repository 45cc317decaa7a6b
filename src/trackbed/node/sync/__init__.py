"""On each node of a cluster: makes the host what the node's RailNode says, and says what the host is.

host          the program that `trackbed apply --nodes` sends, run in the host's own namespaces
judge         what its answers mean for the RailNode's status: pure
doctor        what doctor says of the host
findings      that, told in the RailNode's status now and then
allocations   which pods have rails, told in batches
run           watches the node's RailNode; compares, changes only while it may, reboots only the boot it was told of
"""
