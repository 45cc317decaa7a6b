"""One machine: its wanted settings, its state, the difference, and the transaction that applies or undoes changes."""
