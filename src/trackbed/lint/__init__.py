"""Mistakes in existing Kubernetes manifests: what a schema refuses, and what no schema can hold."""
