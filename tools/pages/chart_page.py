"""The table of values in docs/reference/chart.md, made of the comments of values.yaml and of values.schema.json."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "charts" / "trackbed"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "chart.md"
_BEGIN, _END = "<!-- values: written by scripts/docs -->\n", "<!-- end of values -->\n"
_LINE = re.compile(r"( *)(?:# (?P<comment>.*)|(?P<key>[A-Za-z]+):.*)")

_ValuePath = tuple[str, ...]


def render_chart_page() -> str:
    """Render the page as it is, with the table that the chart has now."""
    before, _, after = PAGE.read_text().partition(_BEGIN)
    return before + _BEGIN + "".join(_iter_table()) + _END + after.partition(_END)[2]


def read_values() -> dict[str, Any]:
    """Read values.yaml."""
    return dict(yaml.safe_load((CHART / "values.yaml").read_text()))


def read_schema() -> dict[str, Any]:
    """Read values.schema.json."""
    return dict(json.loads((CHART / "values.schema.json").read_text()))


def _read_comments() -> dict[_ValuePath, str]:
    """Return the comment above each value."""
    comments: dict[_ValuePath, str] = {}
    path: list[str] = []
    comment = ""
    for line in (CHART / "values.yaml").read_text().splitlines():
        match = _LINE.fullmatch(line)
        if match and match["key"]:
            path = [*path[: len(match[1]) // 2], match["key"]]
            comments[tuple(path)] = comment
        comment = (match["comment"] or "") if match else ""
    return comments


def _iter_table() -> Iterator[str]:
    yield "\n| value | default | |\n|---|---|---|\n"
    comments = _read_comments()
    for path, default, rule in _iter_rows(read_values(), read_schema(), ()):
        about = comments[path] or rule.get("description", "")
        cell = "" if default is None else f"`{json.dumps(default)}`"
        yield f"| `{'.'.join(path)}` | {cell} | {about} |\n"
    yield "\n"


def _iter_rows(
    values: Mapping[str, Any], rule: Mapping[str, Any], path: _ValuePath
) -> Iterator[tuple[_ValuePath, Any, dict[str, Any]]]:
    """Yield each value with its default and its rule; a group of values has no default of its own."""
    for name, default in values.items():
        inner = rule["properties"][name]
        if "$ref" in inner:
            yield (*path, name), default, read_schema()["$defs"][inner["$ref"].rpartition("/")[2]]
        elif isinstance(default, dict) and default:
            if _read_comments()[*path, name]:
                yield (*path, name), None, inner
            yield from _iter_rows(default, inner, (*path, name))
        else:
            yield (*path, name), default, inner
