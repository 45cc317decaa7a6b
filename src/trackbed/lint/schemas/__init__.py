"""CustomResourceDefinitions as JSON schemas: validation as by an API server, without one."""
