"""Inventories built from snapshots, and a Fabric built from inventories."""
