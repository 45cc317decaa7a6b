"""Programs on the nodes of a cluster: the agent that attaches rails, its CNI executables, the upkeep of the host."""
