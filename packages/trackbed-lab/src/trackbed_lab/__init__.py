"""A lab for Trackbed: a fabric in network namespaces, emulated servers, and a Kubernetes control plane on loopback."""

__version__ = "0.1.0"
