"""Everything computed from a Fabric: addresses, names, tables, for every node and port."""
