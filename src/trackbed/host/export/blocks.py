"""YAML text written by hand: whole files in it stay readable, and a thousand hosts take a moment.

A literal block (YAML 1.2, 8.1.2) where the text allows it: ends with one line's end, does not begin with a blank or an
empty line, and holds nothing but printable ASCII and tabs; else a double-quoted scalar, which JSON's strings are.
"""

from __future__ import annotations

import json
import re

_PLAIN = re.compile(r"(?![ \t\n])[\t\n\x20-\x7e]*[\t\x20-\x7e]\n")


def render_block(text: str, indent: int) -> str:
    """Render a text as the value of a key; its lines are indented by `indent` spaces."""
    if not _PLAIN.fullmatch(text):
        return f"{json.dumps(text)}\n"
    margin = " " * indent
    lines = (f"{margin}{line}" if line else "" for line in text[:-1].split("\n"))
    return "|\n" + "\n".join(lines) + "\n"


def render_scalar(text: str) -> str:
    """Render a text of one line as a double-quoted scalar."""
    return json.dumps(text)
