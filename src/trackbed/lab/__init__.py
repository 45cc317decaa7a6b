"""A whole fabric in network namespaces, for tests and for trying things out."""
