"""CustomResourceDefinitions as JSON schemas, to validate objects as an API server would, but offline."""
