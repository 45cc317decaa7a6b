"""The daemon on each node: attaches rails to pods and keeps their addresses in a journal."""
