"""Dynamic resource allocation (resource.k8s.io/v1): rails as devices that claims name, without device plugins."""
