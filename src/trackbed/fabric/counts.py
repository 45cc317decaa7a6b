"""Counts in messages: 1 host, 2 hosts."""


def format_count(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun; `plural` is for nouns that take more than an s."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
