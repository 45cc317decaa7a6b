"""Checks between nodes: each node gives an excerpt, and a pure function judges all excerpts together.

    NodeView ──> excerpt_node ──> NodeExcerpt ─┐
    a node that was not read ──> NodeExcerpt ──┴─> judge_nodes ──> Finding, one for each fault, with all its ends

An excerpt has a few kilobytes, so those of a thousand nodes fit in memory where their views do not.
"""
