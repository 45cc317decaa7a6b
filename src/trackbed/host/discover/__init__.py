"""Inventories of machines, built from snapshots, and a Fabric document built from inventories."""
