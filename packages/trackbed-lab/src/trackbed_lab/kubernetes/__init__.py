"""A real Kubernetes control plane on loopback: built once from source, started in seconds, removed completely."""
