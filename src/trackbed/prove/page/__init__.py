"""The page of a proof: one self-contained HTML file, computed as plain values and then rendered."""
