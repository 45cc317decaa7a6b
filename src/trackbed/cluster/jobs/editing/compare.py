"""The edits of a text that give a document its new values. Entries are added and values replaced, never removed.

    block style    new entries are lines of their own, after the last line of the entry before them
    flow style     new entries follow the entry before them, on lines of their own if the collection has these
    aliases        an alias is kept if its value equals the new value at its anchor, else it is replaced by its value

Edits of an inner collection come before those of the outer, as both may be at the same offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.jobs.editing.edits import CannotEditError, Replacement, is_identical
from trackbed.cluster.jobs.editing.insert import insert_entries, insert_items, replace_merge, replace_value
from trackbed.cluster.jobs.editing.nodes import Node, get_own_entries, merge_mappings, to_value
from trackbed.cluster.jobs.editing.style import Style


class DocumentEditor:
    """The edits of one document. Nodes are visited in the order of the text, so an anchor comes before its aliases."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._anchored_values: dict[int, Any] = {}
        """Identity of an anchored node -> its new value."""

    def iter_edits(
        self,
        node: Node,
        value: Any,  # noqa: ANN401 - a YAML value has any type
        parent: Node | None = None,
        key: Node | None = None,
    ) -> Iterator[Replacement]:
        """Yield the edits that give a node its new value; `parent` holds the node, in a mapping under `key`."""
        if node.is_anchored:
            self._anchored_values[id(node)] = value
        if node.kind == "mapping" and node.entries and isinstance(value, dict):
            yield from self._iter_mapping_edits(node, value)
        elif node.kind == "sequence" and node.entries and isinstance(value, list) and value:
            yield from self._iter_sequence_edits(node, value)
        elif not is_identical(self._get_new_value(node), value):
            yield from replace_value(self._style, node, value, parent, key)

    def _get_new_value(self, node: Node) -> Any:  # noqa: ANN401 - a YAML value has any type
        """Return the value that a node has after all edits so far; aliases follow their anchors."""
        if node.target is not None:
            return self._anchored_values.get(id(node.target), to_value(node))
        if node.kind == "sequence":
            return [self._get_new_value(entry.value) for entry in node.entries]
        return to_value(node)

    def _iter_mapping_edits(self, node: Node, value: dict[str, Any]) -> Iterator[Replacement]:
        entries = get_own_entries(node)
        for name, entry in entries.items():
            if name not in value:
                raise CannotEditError(f"key {name} was removed")
            yield from self.iter_edits(entry.value, value[name], node, entry.key)
        merges = [entry for entry in node.entries if entry.key and entry.key.is_merge_key]
        merged = merge_mappings([self._get_new_value(entry.value) for entry in merges])
        if merged.keys() <= value.keys():
            inherited = {name for name in merged if name not in entries and is_identical(merged[name], value[name])}
        else:
            inherited = to_value(node).keys() - entries.keys()
            copied = {name: value[name] for name in value if name in inherited}
            yield from replace_merge(self._style, node, merges, copied)
        new_names = [name for name in value if name not in entries and name not in inherited]
        yield from insert_entries(self._style, node, value, new_names)

    def _iter_sequence_edits(self, node: Node, value: list[Any]) -> Iterator[Replacement]:
        """Yield edits of a list whose new items are together: at its end, or after the first items that are kept."""
        added = len(value) - len(node.entries)
        items = [to_value(entry.value) for entry in node.entries]
        kept = sum(1 for _ in _take_similar(items, value))
        if added < 0 or not all(map(_is_similar, items[kept:], value[kept + added :])):
            raise CannotEditError("items of a list were removed or replaced")
        for entry, item in zip(node.entries, value[:kept] + value[kept + added :], strict=True):
            yield from self.iter_edits(entry.value, item, node)
        if added:
            yield from insert_items(self._style, node, kept, value[kept : kept + added])


def _take_similar(items: list[Any], value: list[Any]) -> Iterator[Any]:
    for item, new_item in zip(items, value, strict=False):
        if not _is_similar(item, new_item) or (isinstance(item, str) and item != new_item):
            return
        yield item


def _is_similar(item: Any, new_item: Any) -> bool:  # noqa: ANN401 - a YAML value has any type
    """Return whether a new item can be an old one with additions."""
    if isinstance(item, dict) and isinstance(new_item, dict):
        return item.keys() <= new_item.keys() and all(_is_similar(item[key], new_item[key]) for key in item)
    if isinstance(item, list) and isinstance(new_item, list):
        return len(item) <= len(new_item)
    return item is None or (type(item) is type(new_item) and (isinstance(item, str) or is_identical(item, new_item)))
