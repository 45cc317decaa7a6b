"""On each node of a cluster: applies the node's RailNode to the host, and reports the host's state in its status.

host          the host of this container, through the program that `trackbed apply --nodes` sends
interpreter   this container's Python as a command for the host, which needs none
judge         conditions and next actions for the results of the host: pure functions
doctor        doctor's diagnosis of the host
repairer      repair of drift in place, and events about it
contest       repairs that do not last: pure functions
findings      failing checks of doctor in the RailNode's status, updated periodically
allocations   pods with rails in the RailNode's status, updated in batches
preparer      watch of the node's RailNode; compares the host, and changes or reboots it only with permission
"""
