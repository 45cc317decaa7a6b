"""The machine's edge: reads, compares, writes, persists and undoes each kind of setting."""
