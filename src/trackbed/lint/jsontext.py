"""JSON inside manifests: CNI configurations, device plugin configurations, the networks annotation.

A trailing comma is the commonest mistake of templates; it is told apart from text that is no JSON at all, so that
the rest of such a text is still checked.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from itertools import pairwise
from typing import Any, NamedTuple

from trackbed.fabric.model.problems import Path, Place, SpecError
from trackbed.fabric.model.source import read_yaml
from trackbed.lint.tree import Inside, Tree, embedded


class JsonText(NamedTuple):
    """One text that must be JSON."""

    outer: Tree
    path: Path
    """Where the text stands in `outer`."""
    tree: Tree | None
    """What it says; None where it is no JSON."""
    commas: tuple[Place, ...] = ()
    """Trailing commas."""
    error: str = ""
    """Why it is no JSON."""
    place: Place | None = None
    """Of the error."""


_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LINE_END = re.compile(r"\n")
_COMMA = re.compile(r",(?=\s*[\]}])")


def json_text(outer: Tree, path: Path, text: str, *, joined: bool = False) -> JsonText:
    """Read the text at `path`; with `joined` it is several values with commas between, read as a list."""
    whole = f"[{text}]" if joined else text
    blank = _STRING.sub(lambda found: " " * len(found[0]), whole)
    commas = [found.start() for found in _COMMA.finditer(blank)]
    mended = _without(whole, commas)
    places = _places(outer, path, text, [at - joined for at in commas])
    try:
        read_yaml(mended.replace("\t", " ").encode(), outer.place(path).file)  # bounds its depth before json recurses
        value: Any = json.loads(mended)
    except json.JSONDecodeError as error:
        return JsonText(outer, path, None, (), error.msg, *_places(outer, path, text, [error.pos - joined]))
    except SpecError as error:
        problem = error.problems[0]
        at = problem.place or Place("", 1, 1)
        what = "it is not JSON" if problem.code in {"bad-yaml", "tab"} else problem.message
        return JsonText(outer, path, None, (), what, _at(outer.inner(path, text), at))
    return JsonText(outer, path, embedded(outer, path, text, value), places)


def _without(text: str, positions: list[int]) -> str:
    cuts = [-1, *positions, len(text)]
    return "".join(text[start + 1 : end] for start, end in pairwise(cuts)) if positions else text


def _places(outer: Tree, path: Path, text: str, positions: list[int]) -> tuple[Place, ...]:
    starts = [0, *(found.end() for found in _LINE_END.finditer(text))] if positions else []
    inside = outer.inner(path, text)
    found = []
    for position in positions:
        line = bisect_right(starts, max(position, 0))
        found.append(_at(inside, Place("", line, max(position, 0) - starts[line - 1] + 1)))
    return tuple(found)


def _at(inside: Inside, within: Place) -> Place:
    if not inside.exact:
        return inside.place
    return Place(inside.place.file, inside.line + within.line, inside.column + within.column)
