"""JSON inside manifests: CNI configurations, device plugin configurations, the networks annotation.

Trailing commas, the most frequent mistake in templates, are reported separately from other syntax errors, so that the
rest of the text is still checked.
"""

import json
import re
from bisect import bisect_right
from itertools import pairwise
from typing import Any, NamedTuple

from trackbed.fabric.model.problems import Path, Place, SpecError
from trackbed.fabric.model.source import read_yaml
from trackbed.lint.tree import TextPosition, Tree, embed_json


class JsonText(NamedTuple):
    """A text in a manifest that must be JSON."""

    outer: Tree
    path: Path
    """Path of the text in the tree `outer`."""
    tree: Tree | None
    """The content; None if the text is not JSON."""
    commas: tuple[Place, ...] = ()
    """Places of trailing commas."""
    error: str = ""
    """Why the text is not JSON."""
    place: Place | None = None
    """Place of the error."""


_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*+"?')
"""Matches one without an end too, else each of its quotes would begin another."""
_TRAILING_COMMA = re.compile(r",(?=\s*[\]}])")


def parse_json_text(outer: Tree, path: Path, text: str, *, joined: bool = False) -> JsonText:
    """Parse the JSON text at `path`; with `joined`, the text is a list of values without its brackets."""
    whole = f"[{text}]" if joined else text
    masked = _STRING.sub(lambda match: "x" * len(match[0]), whole)  # blanks would join a comma to a bracket
    commas = [match.start() for match in _TRAILING_COMMA.finditer(masked)]
    valid = "".join(whole[start + 1 : end] for start, end in pairwise([-1, *commas, len(whole)]))
    places = _locate_offsets(outer, path, text, [comma - joined for comma in commas])
    try:
        # read_yaml limits the depth before json recurses.
        read_yaml(valid.replace("\t", " ").encode(), outer.find_place(path).file)
        value: Any = json.loads(valid)
    except json.JSONDecodeError as error:
        return JsonText(outer, path, None, (), error.msg, *_locate_offsets(outer, path, text, [error.pos - joined]))
    except SpecError as error:
        problem = error.problems[0]
        reason = "it is not JSON" if problem.code in {"bad-yaml", "tab"} else problem.message
        place = _to_file_place(outer.locate_text(path, text), problem.place or Place("", 1, 1))
        return JsonText(outer, path, None, (), reason, place)
    return JsonText(outer, path, embed_json(outer, path, text, value), places)


def _locate_offsets(outer: Tree, path: Path, text: str, offsets: list[int]) -> tuple[Place, ...]:
    starts = [0, *(match.end() for match in re.finditer("\n", text))] if offsets else []
    text_position = outer.locate_text(path, text)
    places = []
    for offset in offsets:
        line = bisect_right(starts, max(offset, 0))
        places.append(_to_file_place(text_position, Place("", line, max(offset, 0) - starts[line - 1] + 1)))
    return tuple(places)


def _to_file_place(position: TextPosition, place: Place) -> Place:
    if not position.exact:
        return position.place
    return Place(position.place.file, position.line + place.line, position.column + place.column)
