"""Stacks of clouds. The provider manages hosts, addresses and switches; the stack only edits pods.

The Fabric of a cloud has scheme none, and as many rails as the machine type has RDMA NICs.
"""
