"""A real Kubernetes control plane on loopback: built once from source, started in seconds, gone without a trace."""
