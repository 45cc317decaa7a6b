"""The stacks of clouds: hosts, addresses and switches are the provider's; what is left is what a pod carries.

A Fabric for a cloud says scheme none and as many rails as the machine type has RDMA NICs.
"""
