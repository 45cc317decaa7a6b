"""Trackbed's own kinds, Fabric and RailNode, and the conditions of objects."""
