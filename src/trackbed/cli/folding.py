"""Prose in a width: lines break between words, but never within a command in backticks, which may be copied."""

from __future__ import annotations

import re

import click

_WORD = re.compile(r"\s*(?:`[^`\n]*`|\S)+")
"""A word with the space before it; a command in backticks is part of one word."""


def fold_line(line: str, width: int, hanging: int) -> str:
    """Return a line broken to a width in characters, with `hanging` spaces before all parts but the first.

    The line may hold sequences of click.style, which take no width. A word that is wider than everything there is stays
    whole, and the terminal continues it on its next line.
    """
    parts = [""]
    for word in _WORD.findall(line.rstrip()):
        if parts[-1] and _measure(parts[-1] + word) > width:
            parts.append(" " * hanging + word.lstrip())
        else:
            parts[-1] += word
    return "\n".join(parts)


def _measure(text: str) -> int:
    return len(click.unstyle(text))
