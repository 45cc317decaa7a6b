"""Edits of YAML and JSON files by position: what is not edited stays byte for byte."""
