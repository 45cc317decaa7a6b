"""Runs of a stack on a cluster: objects are applied, gates awaited, and the state before is recorded for an undo."""
