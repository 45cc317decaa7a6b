"""Mistakes in Kubernetes manifests: violations of a CRD's schema, and of rules that a schema cannot express."""
