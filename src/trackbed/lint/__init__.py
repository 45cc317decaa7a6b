"""Checks of Kubernetes manifests against the schemas of CRDs, and against rules that a schema cannot express."""
