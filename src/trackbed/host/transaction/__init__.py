"""The transaction that applies settings to a machine, with a record for undo."""
