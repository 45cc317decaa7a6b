"""CustomResourceDefinitions as JSON schemas: what the API server checks, checked without one."""
