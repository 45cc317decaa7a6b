"""What runs on a node of a cluster: the agent that attaches rails, its CNI executables, the host kept as planned."""
