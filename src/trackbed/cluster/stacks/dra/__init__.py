"""Stacks on dynamic resource allocation (resource.k8s.io/v1): pods claim rails as devices, without device plugins."""
