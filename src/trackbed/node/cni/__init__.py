"""The executable a container runtime calls; standard library only."""
