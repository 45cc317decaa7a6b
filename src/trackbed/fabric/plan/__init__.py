"""The plan computed from a Fabric: addresses, names and routing tables of every node and port."""
