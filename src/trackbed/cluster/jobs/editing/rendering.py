"""Text of new values, in the style of the text around them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trackbed.fabric.yaml_text import Layout, render_mapping


def render_block_entries(mapping: Mapping[str, Any], column: int, list_indent: str) -> list[str]:
    """Return the lines of entries in block style; `list_indent` is the indent of lists below their keys."""
    lines = render_mapping(mapping, Layout(list_indent=list_indent)).removesuffix("\n").split("\n")
    return [" " * column + line if line else "" for line in lines]


def render_block_items(items: list[Any], column: int, list_indent: str) -> list[str]:
    """Return the lines of list items in block style; `column` is that of their dashes."""
    lines = render_mapping({"a": items}, Layout(list_indent=list_indent)).removesuffix("\n").split("\n")[1:]
    return [" " * column + line[len(list_indent) :] if line else "" for line in lines]


def render_flow(value: Any) -> str:  # noqa: ANN401 - a YAML value has any type
    """Return a value in flow style on one line, with quotes only where they are needed."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{render_flow(key)}: {render_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(render_flow, value)) + "]"
    if isinstance(value, str) and "\n" in value:
        return json.dumps(value)
    return render_mapping({"a": value}).removeprefix("a: ").removesuffix("\n")


def render_json(value: Any, indent: str | None = None, margin: str = "") -> str:  # noqa: ANN401 - as above
    """Return a value as JSON, on one line without `indent`, else with `margin` before each line but the first."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return text if indent is None else text.replace("\n", f"\n{margin}")
