"""Edits that insert new entries and items, and that replace values.

Collections in flow style that are JSON get JSON, other text in flow style has quotes only where they are needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby, takewhile
from typing import Any

from trackbed.cluster.jobs.editing.edits import CannotEditError, Replacement
from trackbed.cluster.jobs.editing.nodes import Node, NodePair, get_own_entries
from trackbed.cluster.jobs.editing.rendering import render_block_entries, render_block_items, render_flow, render_json
from trackbed.cluster.jobs.editing.style import Style

_PLAIN_INSERTION = re.compile(r"[A-Za-z0-9/@,._-]+")
"""Text that needs no quotes inside a plain scalar."""


def insert_entries(style: Style, node: Node, value: dict[str, Any], new_names: list[str]) -> Iterator[Replacement]:
    """Yield edits that add keys to a mapping, each after the key that precedes it in `value`."""
    entries = get_own_entries(node)
    names = [name for name in value if name in entries or name in new_names]
    previous: NodePair | None = None
    for is_new, group in groupby(names, lambda name: name not in entries):
        if is_new:
            mapping = {name: value[name] for name in group}
            if node.style:
                yield from _insert_in_flow(style, node, previous, _render_pairs(style, node, mapping))
            else:
                lines = render_block_entries(mapping, node.column, style.list_indent)
                yield _insert_lines(style, node, previous, lines)
        else:
            previous = entries[list(group)[-1]]


def insert_items(style: Style, node: Node, index: int, items: list[Any]) -> Iterator[Replacement]:
    """Yield edits that insert items into a sequence before the item with this index."""
    previous = node.entries[index - 1] if index else None
    if node.style:
        yield from _insert_in_flow(style, node, previous, [_render(style, node, item) for item in items])
    else:
        yield _insert_lines(style, node, previous, render_block_items(items, node.column, style.list_indent))


def _insert_lines(style: Style, node: Node, previous: NodePair | None, lines: list[str]) -> Replacement:
    """Return the insertion of lines after an entry in block style, or before the first entry and its comments."""
    if previous is not None:
        offset = style.find_end_of_comments(_find_end(previous), node.column)
        return Replacement(offset, offset, style.join_lines(lines))
    first = node.entries[0].key or node.entries[0].value
    if style.text[style.find_line_start(first.start) : first.start].strip(" "):
        raise CannotEditError("the first entry begins on the line of another")
    offset = style.find_comment_start(style.find_line_start(first.start))
    return Replacement(offset, offset, "".join(f"{line}{style.line_end}" for line in lines))


def _find_end(entry: NodePair) -> int:
    return max(entry.value.end, entry.key.end if entry.key else 0)


def _insert_in_flow(style: Style, node: Node, previous: NodePair | None, rendered: list[str]) -> Iterator[Replacement]:
    """Yield insertions into a collection in flow style, each part on a line of its own if the others have theirs."""
    last = previous
    first = node.entries[0].key or node.entries[0].value
    has_lines = "\n" in style.text[node.start : first.start]
    if last is None:
        separator = f",{style.line_end}{style.get_indent(first.start)}" if has_lines else ", "
        yield Replacement(first.start, first.start, "".join(f"{part}{separator}" for part in rendered))
        return
    separator = style.line_end + style.get_indent((last.key or last.value).start) if has_lines else " "
    offset, is_last = _find_end(last), last is node.entries[-1]
    trailer = style.text[offset : node.end - 1]
    if is_last and has_lines and "\n" in trailer:  # a comment may follow the last entry
        comma = "" if trailer.lstrip().startswith(",") else ","
        line_end = style.find_line_end(offset)
        tail = "," if not comma else ""
        if comma:
            yield Replacement(offset, offset, ",")
        yield Replacement(line_end, line_end, separator + f",{separator}".join(rendered) + tail)
    elif is_last and trailer.strip() == ",":
        yield Replacement(offset + trailer.index(",") + 1, offset + trailer.index(",") + 1, f" {', '.join(rendered)},")
    else:
        yield Replacement(offset, offset, "".join(f",{separator}{part}" for part in rendered))


def replace_value(style: Style, node: Node, value: Any, parent: Node | None, key: Node | None) -> Iterator[Replacement]:  # noqa: ANN401 - a YAML value has any type
    """Yield edits that replace a scalar, an alias or an empty collection."""
    if parent is None:
        raise CannotEditError("a document was replaced")
    insertion = (
        _insert_in_scalar(style, node, value) if isinstance(value, str) and isinstance(node.scalar, str) else None
    )
    if insertion is not None:
        yield insertion
        return
    if parent.style:
        space = " " if node.start == node.end and style.text[node.start - 1 : node.start] == ":" else ""
        yield Replacement(node.start, node.end, space + _render(style, parent, value))
        return
    if node.style == "|" and isinstance(value, str) and value.endswith("\n") == str(node.scalar).endswith("\n"):
        yield Replacement(node.start, node.end, _render_literal(style, node, value))
        return
    if key is None:
        lines = render_block_items([value], parent.column, style.list_indent)
        head, is_alone = lines[0][parent.column + 2 :], False
    else:
        lines = render_block_entries({"a": value}, parent.column, style.list_indent)
        head, is_alone = lines[0][parent.column + 2 :].lstrip(" "), not lines[0][parent.column + 2 :]
    yield from _replace_in_block(style, node, head, lines[1:], is_alone=is_alone)


def _insert_in_scalar(style: Style, node: Node, value: str) -> Replacement | None:
    """Return the insertion that gives a scalar on one line its new text, in its own quotes; None if there is none."""
    if not isinstance(node.scalar, str):
        return None
    pairs = zip(node.scalar, value, strict=False)
    head = value[: sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))]
    tail = node.scalar[len(head) :]
    inserted = value[len(head) : len(value) - len(tail)]
    source = style.text[node.start : node.end]
    body = source[: len(source) - len(node.style)]
    is_safe = bool(head) and value.endswith(tail) and body.endswith(tail) and "\n" not in source + inserted
    if not is_safe or (not node.style and not _PLAIN_INSERTION.fullmatch(inserted)):
        return None
    escaped = inserted.replace("'", "''") if node.style == "'" else inserted
    offset = node.start + len(body) - len(tail)
    return Replacement(offset, offset, json.dumps(inserted, ensure_ascii=False)[1:-1] if node.style == '"' else escaped)


def _render_literal(style: Style, node: Node, value: str) -> str:
    """Return a literal block with the header and the indent of another."""
    header, _, content = style.text[node.start : node.end].partition("\n")
    line = content.lstrip("\n")
    pad = line[: len(line) - len(line.lstrip(" "))]
    lines = value.removesuffix("\n").split("\n")
    return header.rstrip("\r") + style.join_lines([pad + line if line else "" for line in lines])


def _replace_in_block(
    style: Style, node: Node, head: str, lines: list[str], *, is_alone: bool
) -> Iterator[Replacement]:
    """Yield edits that write the first line of a value in place of a node, and its other lines below.

    With `is_alone` the first line is empty, and the space before the node goes too.
    """
    start = node.start
    if is_alone:
        start -= len(style.text[:start]) - len(style.text[:start].rstrip(" "))
    space = " " if head and style.text[start - 1 : start] in (":", "-") else ""
    yield Replacement(start, node.end, space + head)
    if lines:
        offset = style.find_end_of_comments(node.end, len(lines[0]) - len(lines[0].lstrip(" ")))
        yield Replacement(offset, offset, style.join_lines(lines))


def replace_merge(
    style: Style, node: Node, merges: Sequence[NodePair], inherited: dict[str, Any]
) -> Iterator[Replacement]:
    """Yield edits that write the inherited keys in place of a mapping's merge keys."""
    [merge, *others] = merges
    if merge.key is None or others:
        raise CannotEditError("a mapping has two merge keys")
    if node.style:
        yield Replacement(merge.key.start, merge.value.end, ", ".join(_render_pairs(style, node, inherited)))
        return
    lines = render_block_entries(inherited, node.column, style.list_indent)
    yield Replacement(merge.key.start, merge.value.end, lines[0][node.column :])
    offset = style.find_line_end(merge.value.end)
    if lines[1:]:
        yield Replacement(offset, offset, style.join_lines(lines[1:]))


def _render_pairs(style: Style, node: Node, mapping: dict[str, Any]) -> list[str]:
    """Return entries to insert into a mapping in flow style."""
    render_key = render_json if _has_json_style(style, node) else render_flow
    return [f"{render_key(name)}: {_render(style, node, value)}" for name, value in mapping.items()]


def _render(style: Style, node: Node, value: Any) -> str:  # noqa: ANN401 - a YAML value has any type
    """Return a value to insert into a collection in flow style."""
    if not _has_json_style(style, node):
        return render_flow(value)
    indent, margin = style.find_json_indent(node) if style.is_json else (None, "")
    return render_json(value, indent, margin)


def _has_json_style(style: Style, node: Node) -> bool:
    """Return whether all keys and strings of a collection are in double quotes."""
    return style.is_json or all(_is_json(part) for entry in node.entries for part in entry if part is not None)


def _is_json(node: Node) -> bool:
    if node.kind == "scalar":
        return node.style == '"' or (not node.style and not isinstance(node.scalar, str))
    return all(_is_json(part) for entry in node.entries for part in entry if part is not None)
