"""A soak: pods come and go on a fabric in namespaces while faults are injected; at the end everything is counted."""
