"""Runs of a stack on a cluster: record the state for an undo, apply objects, wait for gates."""
