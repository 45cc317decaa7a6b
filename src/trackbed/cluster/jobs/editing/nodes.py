"""YAML nodes with the positions of their text, and their values as Kubernetes reads them.

Unlike PyYAML's nodes, these keep aliases, and a collection in block style ends with its last entry. Positions are
offsets in characters. The text must first pass `fabric.model.source.read_yaml`, which limits depth and aliases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import yaml

from trackbed.fabric.surrogates import hide_surrogates, restore_characters
from trackbed.fabric.typed_yaml import parse_scalar

_PROPERTIES = re.compile(r"[&!][^\s,\[\]{}]*(?:[ \t]+[&!][^\s,\[\]{}]*)?")
"""Anchor and tag of a node."""
_SPACE = re.compile(r"(?:\s|(?<=\s)#[^\n]*)*")
"""Space and comments between the properties of a node and the node."""
_STRING_TAGS = ("!", "tag:yaml.org,2002:str")
_TAGGED_TYPES: dict[str, tuple[type, ...]] = {
    "tag:yaml.org,2002:bool": (bool,),
    "tag:yaml.org,2002:int": (int,),
    "tag:yaml.org,2002:float": (float, int),
    "tag:yaml.org,2002:null": (type(None),),
}


class UnreadableValueError(ValueError):
    """A scalar is not of the type that its tag states; `line` counts from 1."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(f"{text!r} is not of the type that its tag states")
        self.line = line


class NodePair(NamedTuple):
    """An entry of a mapping, or an item of a sequence, whose key is None."""

    key: Node | None
    value: Node


@dataclass(slots=True)
class Node:
    """A node of a YAML document."""

    kind: Literal["scalar", "mapping", "sequence", "alias"]
    start: int
    """Offset of the first character after anchor and tag."""
    end: int
    """Offset after the last character."""
    column: int
    """Column of the entries' keys or dashes, from 0; 0 for scalars."""
    style: str = ""
    """Of a scalar: empty if plain, else its first character. Of a collection: `{` or `[` if in flow style."""
    text: str = ""
    """Of a scalar: its text before typing."""
    scalar: Any = None
    is_anchored: bool = False
    entries: list[NodePair] = field(default_factory=list)
    target: Node | None = None
    """The node that an alias refers to."""

    @property
    def is_merge_key(self) -> bool:
        """Whether the node is the key `<<`."""
        return self.kind == "scalar" and self.scalar == "<<" and not self.style


def parse_nodes(text: str) -> list[Node]:
    """Return the root node of each document."""
    return list(_Parser(text).parse())


class _Parser:
    """The nodes of a text, composed of its events."""

    def __init__(self, text: str) -> None:
        self._text = text
        readable = hide_surrogates(text)
        self._has_hidden = readable is not text
        self._events: Iterator[Any] = yaml.parse(readable, Loader=yaml.CBaseLoader)
        self._anchors: dict[str, Node] = {}

    def parse(self) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                yield self._parse_node(next(self._events))

    def _parse_node(self, event: Any) -> Node:  # noqa: ANN401 - events have no common type in typeshed
        start = self._skip_properties(event)
        if isinstance(event, yaml.AliasEvent):
            return self._build_alias(event, start)
        if isinstance(event, yaml.ScalarEvent):
            node = self._build_scalar(event, start)
        else:
            node = self._parse_collection(event, start)
        if event.anchor:
            self._anchors[event.anchor] = node
            node.is_anchored = True
        return node

    def _skip_properties(self, event: Any) -> int:  # noqa: ANN401 - as above
        start: int = event.start_mark.index
        properties = _PROPERTIES.match(self._text, start)
        if properties is None:
            return start
        space = _SPACE.match(self._text, properties.end())
        is_empty = isinstance(event, yaml.ScalarEvent) and not event.value and not event.style
        return properties.end() if is_empty or space is None else space.end()

    def _build_alias(self, event: Any, start: int) -> Node:  # noqa: ANN401 - as above
        return Node("alias", start, event.end_mark.index, 0, target=self._anchors[event.anchor])

    def _build_scalar(self, event: Any, start: int) -> Node:  # noqa: ANN401 - as above
        style = event.style or ""
        if self._has_hidden:
            event.value = restore_characters(event.value)
        end = self._find_block_end(event, start) if style in ("|", ">") else max(start, event.end_mark.index)
        return Node("scalar", start, end, 0, style, event.value, _type_scalar(event))

    def _find_block_end(self, event: Any, start: int) -> int:  # noqa: ANN401 - as above
        """Return the end of a block scalar without its last line break; trailing empty lines count only if kept."""
        block = self._text[start : event.end_mark.index]
        if "+" in block.partition("\n")[0]:
            return start + len(re.sub(r"\r?\n *\Z", "", block))
        end = block.find("\n", len(block.rstrip(" \r\n")))
        return start + (len(block) if end < 0 else end - (block[end - 1] == "\r"))

    def _parse_collection(self, event: Any, start: int) -> Node:  # noqa: ANN401 - as above
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        node = Node("mapping" if is_mapping else "sequence", start, start, 0)
        if event.anchor:
            self._anchors[event.anchor] = node
        for child in self._events:
            if isinstance(child, yaml.CollectionEndEvent):
                break
            key = self._parse_node(child) if is_mapping else None
            node.entries.append(NodePair(key, self._parse_node(next(self._events) if is_mapping else child)))
        if event.flow_style:
            node.style, node.end = self._text[start], child.end_mark.index
        else:
            last = node.entries[-1]
            node.end = max(last.value.end, last.key.end if last.key else 0)
            node.column = start - (self._text.rfind("\n", 0, start) + 1)
        return node


def _type_scalar(event: Any) -> Any:  # noqa: ANN401 - as above
    if event.tag in _TAGGED_TYPES:
        value = parse_scalar(event.value)
        if not isinstance(value, _TAGGED_TYPES[event.tag]):
            raise UnreadableValueError(event.value, event.start_mark.line + 1)
        return value
    return event.value if event.style or event.tag in _STRING_TAGS else parse_scalar(event.value)


def to_value(node: Node) -> Any:  # noqa: ANN401 - a YAML value has any type
    """Return the value of a node. Every alias has a copy of its own, and merge keys are resolved."""
    if node.target is not None:
        return to_value(node.target)
    if node.kind == "scalar":
        return node.scalar
    if node.kind == "sequence":
        return [to_value(entry.value) for entry in node.entries]
    merged = merge_mappings([to_value(entry.value) for entry in node.entries if entry.key and entry.key.is_merge_key])
    return merged | {name: to_value(entry.value) for name, entry in get_own_entries(node).items()}


def get_own_entries(node: Node) -> dict[str, NodePair]:
    """Return the entries of a mapping by their keys, without merge keys."""
    return {get_key_text(entry.key): entry for entry in node.entries if entry.key and not entry.key.is_merge_key}


def get_key_text(key: Node) -> str:
    """Return the text of a key; Kubernetes reads every key as a string."""
    return key.text if key.target is None else key.target.text


def merge_mappings(values: list[Any]) -> dict[str, Any]:
    """Return the keys that a mapping gets from the values of its merge keys; the first mapping with a key wins."""
    merged: dict[str, Any] = {}
    for value in values:
        for base in value if isinstance(value, list) else [value]:
            merged = {**base, **merged} if isinstance(base, dict) else merged
    return merged
