"""Edits: replacements of parts of a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class CannotEditError(ValueError):
    """A change that cannot be written as edits."""


class Replacement(NamedTuple):
    """The replacement of the text between two offsets."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: list[Replacement]) -> str:
    """Return the text with all edits; of several insertions at one offset the first comes first."""
    parts, offset = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end > edit.start)):
        parts += [text[offset : edit.start], edit.text]
        offset = edit.end
    return "".join((*parts, text[offset:]))


def is_identical(first: Any, second: Any) -> bool:  # noqa: ANN401 - a YAML value has any type
    """Return whether two values are equal and of the same types: 1 is not true."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(is_identical(first[key], second[key]) for key in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(is_identical, first, second))
    return type(first) is type(second) and bool(first == second or (first != first and second != second))  # noqa: PLR0124 - NaN
