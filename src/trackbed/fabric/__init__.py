"""The Fabric, the plan computed from it, and the importers that write it. Nothing here reads a host."""
