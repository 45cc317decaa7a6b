"""Whole files as readable YAML values. No YAML emitter is used, because emitters are slow for thousands of hosts.

A text is a literal block (YAML 1.2, 8.1.2) if it ends with one newline, does not begin with a blank or an empty line,
and has only printable ASCII and tabs. Other texts are double-quoted scalars, of which JSON's strings are a subset.
"""

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
