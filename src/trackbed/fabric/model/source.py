"""YAML documents as plain values with their positions.

Scalars stay text (`0000:16:00.0` is not a number, `on` not a boolean); plain `null`, `~` and empty scalars become None.
Input is untrusted: its size, depth and size after alias expansion are limited, duplicate keys are errors.
"""

import re
from itertools import chain
from typing import Any, NamedTuple

import yaml
from yaml.composer import Composer, ComposerError

from trackbed.fabric.model.problems import Path, Place, Problem, SpecError
from trackbed.fabric.surrogates import hide_surrogates, is_json, restore_characters

MAX_BYTES = 16 * 1024 * 1024
"""A lock file of 100,000 nodes has 3 MB."""
MAX_VALUES = 2_000_000
"""Values after alias expansion: ten nested aliases of ten make ten thousand million."""
MAX_DEPTH = 40

NULLS = frozenset({"", "~", "null", "Null", "NULL"})
"""Plain scalars that mean null."""

_FIRST_KEY = "apiVersion"
"""The key with which an object of Kubernetes begins."""
_MAYBE_DEEP = re.compile(r"^[ \t?:-]{400}", re.MULTILINE)
"""A line that may open hundreds of block levels at once, as `- - - -` does."""
_BRACKETS = 500
"""Text with fewer opening brackets cannot be nested deeply enough to be harmful."""


class Scalar(NamedTuple):
    """A scalar and its place; `text` is None for null."""

    text: str | None
    place: Place


class YamlDocument:
    """A YAML document: `data` holds its values, `find_place` returns the place of a path."""

    def __init__(self, file: str, node: yaml.Node) -> None:
        self.file = file
        self.node = node
        self.problems: list[Problem] = []
        self.has_several_objects = False
        """Whether a line `---` between two objects is missing."""
        self._children: dict[int, dict[str, tuple[yaml.Node, yaml.Node]]] = {}
        _check_size(node, file)
        self.data: Any = self._parse_value(node, ())

    def find_place(self, path: Path, *, key: bool = False) -> Place:
        """Return the place of `path`, or of its deepest existing part; with `key`, the place of its last key.

        Of duplicate keys it is the last, whose value `typed_yaml` reads.
        """
        node, mark = self.node, self.node.start_mark
        for depth, part in enumerate(path):
            child = self._find_child(node, part)
            if child is None:
                break
            name, node = child
            mark = name.start_mark if key and depth == len(path) - 1 else node.start_mark
        return Place(self.file, mark.line + 1, mark.column + 1)

    def _find_child(self, node: yaml.Node, part: str | int) -> tuple[yaml.Node, yaml.Node] | None:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            return node.value[part], node.value[part]
        if not isinstance(node, yaml.MappingNode) or not isinstance(part, str):
            return None
        if id(node) not in self._children:
            scalars = ((key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode))
            self._children[id(node)] = {key.value: (key, value) for key, value in scalars}
        return self._children[id(node)].get(part)

    def to_scalars(self) -> Any:  # noqa: ANN401 - YAML holds anything
        """Return the values with each scalar as Scalar; the first of duplicate keys is used."""
        return self._to_scalars(self.node)

    def _to_scalars(self, node: yaml.Node) -> Any:  # noqa: ANN401 - YAML holds anything
        if isinstance(node, yaml.SequenceNode):
            return [self._to_scalars(item) for item in node.value]
        if isinstance(node, yaml.MappingNode):
            mapping: dict[str, Any] = {}
            for key, item in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value not in mapping:
                    mapping[key.value] = self._to_scalars(item)
            return mapping
        mark = node.start_mark
        return Scalar(None if is_null(node) else node.value, Place(self.file, mark.line + 1, mark.column + 1))

    def _parse_value(self, node: yaml.Node, path: Path) -> Any:  # noqa: ANN401 - YAML holds anything
        if isinstance(node, yaml.ScalarNode):
            return None if not node.style and node.value in NULLS else node.value
        if isinstance(node, yaml.SequenceNode):
            return [self._parse_value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._parse_mapping(node, path)

    def _parse_mapping(self, node: yaml.Node, path: Path) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._report("bad-key", "a key must be plain text", key)
            elif key.value in mapping:
                begins_object = not path and key.value == _FIRST_KEY and "kind" in mapping
                self.has_several_objects |= begins_object
                if begins_object or path or not self.has_several_objects:  # other keys belong to the next object
                    hint = ": a line --- before it is missing" if begins_object else ""
                    self._report("duplicate-key", f"key {key.value!r} stands twice in one mapping{hint}", key)
            else:
                mapping[key.value] = self._parse_value(item, (*path, key.value))
        return mapping

    def _report(self, code: str, message: str, node: yaml.Node) -> None:
        mark = node.start_mark
        self.problems.append(Problem(code, message, place=Place(self.file, mark.line + 1, mark.column + 1)))


def _check_size(node: yaml.Node, file: str) -> None:
    """Refuse documents that are too deep, cyclic, or too large after alias expansion."""
    sizes: dict[int, int] = {}

    def count_values(node: yaml.Node, depth: int) -> int:
        if isinstance(node, yaml.ScalarNode):
            return 1
        if depth > MAX_DEPTH:
            reason = f"is nested more than {MAX_DEPTH} levels deep, or holds itself"
            raise _make_error(file, node.start_mark, "too-deep", reason)
        if id(node) not in sizes:
            children = (
                node.value if isinstance(node, yaml.SequenceNode) else [item for pair in node.value for item in pair]
            )
            sizes[id(node)] = 1 + sum(count_values(child, depth + 1) for child in children)
        return sizes[id(node)]

    if count_values(node, 0) > MAX_VALUES:
        reason = f"holds more than {MAX_VALUES} values once its aliases are expanded"
        raise _make_error(file, node.start_mark, "too-large", reason)


def _make_error(file: str, mark: Any, code: str, reason: str) -> SpecError:  # noqa: ANN401 - typeshed says it may be None
    return SpecError([Problem(code, f"this {reason}", place=Place(file, mark.line + 1, mark.column + 1))])


def read_yaml(content: bytes, file: str, max_bytes: int = MAX_BYTES) -> list[YamlDocument]:
    """Parse every document of a YAML file; SpecError if it is too large, not UTF-8 or not YAML."""
    text = decode_text(content, file, max_bytes)
    try:
        readable = hide_surrogates(text)
        nodes = _compose(readable, file)
        if readable is not text:
            _restore_values(nodes)
        return [YamlDocument(file, node) for node in nodes if not is_null(node)]
    except yaml.YAMLError as error:
        raise SpecError([_translate_yaml_error(error, text, file)]) from error


def _compose(text: str, file: str) -> list[yaml.Node]:
    """Return the nodes of all documents. Raises YAMLError, and SpecError if they are nested too deeply."""
    if text.count("[") + text.count("{") >= _BRACKETS or _MAYBE_DEEP.search(text):
        _check_depth(text, file)
    try:
        return list(yaml.compose_all(text, Loader=yaml.CBaseLoader))
    except ComposerError:  # an anchor that stands twice, or an alias of none
        _check_depth(text, file)
        return list(yaml.compose_all(text, Loader=_RedefiningLoader))


def _restore_values(nodes: list[yaml.Node]) -> None:
    """Put right the values of JSON in which surrogates were hidden."""
    remaining, known = list(nodes), set[int]()
    while remaining:
        node = remaining.pop()
        if id(node) in known:
            continue
        known.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            node.value = restore_characters(node.value)
        else:
            remaining += chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value


class _RedefiningLoader(Composer, yaml.CBaseLoader):
    """Lets an anchor be defined again, which libyaml's composer refuses: an alias is the latest (YAML 1.2.2, 7.1)."""

    def __init__(self, stream: str) -> None:
        yaml.CBaseLoader.__init__(self, stream)
        Composer.__init__(self)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # noqa: ANN401 - a key or a number
        """Compose the next node, and forget an earlier one with its anchor."""
        event = self.peek_event()
        if isinstance(event, yaml.NodeEvent) and not isinstance(event, yaml.AliasEvent):
            self.anchors.pop(event.anchor, None)
        return super().compose_node(parent, index)


def _check_depth(text: str, file: str) -> None:
    """Refuse deep nesting before it is composed: PyYAML recurses, in C until it crashes (observed at depth 100,000)."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CBaseLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH + 1:
            raise _make_error(file, event.start_mark, "too-deep", f"is nested more than {MAX_DEPTH} levels deep")


def is_null(node: yaml.Node | None) -> bool:
    """Return whether a node is empty or a plain null."""
    return node is None or (isinstance(node, yaml.ScalarNode) and not node.style and node.value in NULLS)


def decode_text(content: bytes, file: str, max_bytes: int = MAX_BYTES) -> str:
    """Return the text of a file; SpecError if it is too large or not UTF-8."""
    if len(content) > max_bytes:
        message = f"the file is larger than {max_bytes >> 20} MB, the most that is read"
        raise SpecError([Problem("too-large", message, place=Place(file, 1, 1))])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        place = Place(file, before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1)
        message = f"byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise SpecError([Problem("not-utf8", message, place=place)]) from error


def _translate_yaml_error(error: yaml.YAMLError, text: str, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:  # a forbidden character has a position only
        offset = getattr(error, "position", 0)
        message = "a control character stands here; YAML allows none"
        position = Place(file, text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))
        return Problem("bad-yaml", message, place=position)
    place = Place(file, mark.line + 1, mark.column + 1)
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in line[: mark.column + 1] and not is_json(text):
        position = Place(file, mark.line + 1, line.index("\t") + 1)
        return Problem("tab", "a tab indents this line; YAML allows spaces only", place=position)
    problem = getattr(error, "problem", None) or str(error)
    return Problem("bad-yaml", f"this is not YAML: {problem}", place=place)
