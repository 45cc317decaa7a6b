"""Templates: manifests with values that a program such as Helm, envsubst or Argo fills in later.

Expressions are replaced with a text of the same length, so the rest of the file keeps its places and is checked.
"""

import re
from collections.abc import Iterable, Iterator

from trackbed.fabric.model.problems import Path
from trackbed.lint.tree import Tree

_FILLER = "\u2592"
_OPENING = re.compile(r"\{[{%]")
_CLOSING = {"{{": "}}", "{%": "%}"}
_VARIABLE = re.compile(r"\$\{[\w.:=/-]+\}|\$\(\w+\)|\$\w+")
_PLACEHOLDER = re.compile(r"<[^<>]*>|\.{3,}|\u2026")
_PLACEHOLDER_INSIDE = re.compile(r"<\w+>|\{\d+\.\.\d+\}")
"""Matches a part that is filled in by hand: rail<N>, rail{0..7}."""
_REFERENCE = re.compile(r"ref\+[a-z0-9]+://\S+|op://\S+|vault:[^\s#]+#\S+")
"""Matches a secret that a program fetches: vals (as of helmfile), 1Password's op, Bank-Vaults."""
_CAPITALS = re.compile(r"[A-Z0-9_]+")
_CAPITAL_NAME = re.compile(r"[A-Z][A-Z0-9_-]*")
_REMINDERS = frozenset({"PLACEHOLDER", "CHANGEME", "CHANGE", "REPLACE", "TODO", "YOUR"})
"""Words of texts such as REPLACE_ME or PLACEHOLDER_NUM_NODES."""


def mask_expressions(text: str) -> str | None:
    """Return the text with each expression replaced; None if it has none, or if expressions choose its lines."""
    spans = list(_iter_expressions(text))
    in_a_line = _fill(text, (span for span in spans if "\n" not in text[span]))
    if not spans or any(_FILLER in line and not line.strip(f" \t{_FILLER}") for line in in_a_line.split("\n")):
        return None
    return _fill(text, spans)


def has_expressions(text: str) -> bool:
    """Return whether a text has expressions of a template engine."""
    return next(_iter_expressions(text), None) is not None


def _iter_expressions(text: str) -> Iterator[slice]:
    """Yield where the expressions of a template engine are, in a time that grows as the text does."""
    position, last = 0, {opening: text.rfind(closing) for opening, closing in _CLOSING.items()}
    while match := _OPENING.search(text, position):
        position = match.start() + 1
        if match.end() <= last[match[0]]:
            position = text.index(_CLOSING[match[0]], match.end()) + 2
            yield slice(match.start(), position)


def _fill(text: str, spans: Iterable[slice]) -> str:
    """Return the text with its spans replaced; lines stay lines."""
    parts, position = [], 0
    for span in spans:
        parts += [text[position : span.start], re.sub(r"[^\n]", _FILLER, text[span])]
        position = span.stop
    return "".join([*parts, text[position:]])


def is_filled_later(tree: Tree, path: Path) -> bool:
    """Return whether the value at `path`, or its key, is the place of a value that is filled in later.

    What is empty in a template is filled in too.
    """
    value = tree.get(*path)
    if is_empty(value) and (is_template(tree) or _is_nameless(tree)):
        return True
    return is_placeholder(value) or any(is_placeholder(part) for part in path[-1:])


def is_template(tree: Tree) -> bool:
    """Return whether the name of an object is filled in later; few kinds take one in capitals (RFC 1123)."""
    name = tree.get("metadata", "name")
    return name == "" or is_placeholder(name) or (isinstance(name, str) and _CAPITAL_NAME.fullmatch(name) is not None)


def _is_nameless(tree: Tree) -> bool:
    """Return whether an object has no name, so that no API server takes it as it is."""
    metadata = tree.get("metadata")
    return isinstance(metadata, dict) and not {"name", "generateName"} & metadata.keys()


def is_empty(value: object) -> bool:
    """Return whether a value is nothing, or a text, list or mapping without content."""
    return value is None or value in ("", [], {})


def _is_expression_list(value: object) -> bool:
    """Return whether a value is a list of one list of one word, as [[name]]."""
    inner = value[0] if isinstance(value, list) and len(value) == 1 else None
    return isinstance(inner, list) and len(inner) == 1 and isinstance(inner[0], str)


def is_placeholder(value: object) -> bool:
    """Return whether a value is text with a variable, an expression, an ellipsis or a word such as REPLACE_ME instead.

    Texts with blanks, such as shell scripts, are values. YAML reads the expression [[name]] as a list.
    """
    if not isinstance(value, str):
        return _is_expression_list(value)
    text = value.strip()
    if _FILLER in text or _PLACEHOLDER.fullmatch(text) or _REFERENCE.fullmatch(text):
        return True
    is_marked = text.startswith("__") and text.endswith("__")
    if _CAPITALS.fullmatch(text) and (is_marked or not _REMINDERS.isdisjoint(text.split("_"))):
        return True
    bare = _fill(text, _iter_expressions(text)).replace(_FILLER, "")
    is_filled = bare != text or _VARIABLE.search(bare) or _PLACEHOLDER_INSIDE.search(bare)
    return bool(is_filled) and not re.search(r"\s", bare)
