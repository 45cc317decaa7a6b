"""docs/reference/chart.md: its table of values is made of the comments of values.yaml, and of values.schema.json.

`scripts/docs` writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.charts.chart import CHART

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "chart.md"
_BEGIN, _END = "<!-- values: written by scripts/docs -->\n", "<!-- end of values -->\n"
_LINE = re.compile(r"( *)(?:# (?P<comment>.*)|(?P<key>[A-Za-z]+):.*)")

Path_ = tuple[str, ...]


def page() -> str:
    """The page with the table that the chart has now."""
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    return before + _BEGIN + "".join(_table()) + _END + rest.partition(_END)[2]


def values() -> dict[str, Any]:
    """values.yaml."""
    return dict(yaml.safe_load((CHART / "values.yaml").read_text()))


def schema() -> dict[str, Any]:
    """values.schema.json."""
    return dict(json.loads((CHART / "values.schema.json").read_text()))


def comments() -> dict[Path_, str]:
    """Place of a value -> the comment above it."""
    found: dict[Path_, str] = {}
    place: list[str] = []
    said = ""
    for line in (CHART / "values.yaml").read_text().splitlines():
        if (match := _LINE.fullmatch(line)) is None:
            said = ""
        elif match["key"]:
            place = [*place[: len(match[1]) // 2], match["key"]]
            found[tuple(place)] = said
            said = ""
        else:
            said = match["comment"]
    return found


def _table() -> Iterator[str]:
    yield "\n| value | default | |\n|---|---|---|\n"
    told = comments()
    for place, default, rule in _rows(values(), schema(), ()):
        about = told[place] or rule.get("description", "")
        shown = "" if default is None else f"`{json.dumps(default)}`"
        yield f"| `{'.'.join(place)}` | {shown} | {about} |\n"
    yield "\n"


def _rows(
    given: Mapping[str, Any], rule: Mapping[str, Any], place: Path_
) -> Iterator[tuple[Path_, Any, dict[str, Any]]]:
    """Each value with its default and its rule; a group of values has no default of its own."""
    for name, default in given.items():
        inner = rule["properties"][name]
        if "$ref" in inner:
            yield (*place, name), default, schema()["$defs"][inner["$ref"].rpartition("/")[2]]
        elif isinstance(default, dict) and default:
            if comments()[*place, name]:
                yield (*place, name), None, inner
            yield from _rows(default, inner, (*place, name))
        else:
            yield (*place, name), default, inner


if __name__ == "__main__":  # scripts/docs
    PAGE.write_text(page())
