"""The report of a lab run: one self-contained HTML page, computed as plain values (`page`) and then rendered."""
