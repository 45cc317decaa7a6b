"""Programs that stay until they are told to end: where they listen, and their page of metrics and health."""
