"""Applying a plan to a machine as a transaction, with a record for undo."""
