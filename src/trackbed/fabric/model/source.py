"""YAML text to plain values that remember where they stood.

Every scalar stays a string (`0000:16:00.0` is no number, `on` no boolean); plain `null`, `~` and nothing become None.
Input is hostile: size, depth and the size after aliases are bounded, duplicate keys are errors.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import yaml

from trackbed.fabric.model.problems import Path, Place, Problem, SpecError

MAX_BYTES = 16 * 1024 * 1024
"""A lock file of 100,000 nodes has 3 MB."""
MAX_VALUES = 2_000_000
"""Values after aliases are expanded: ten nested aliases of ten make ten thousand million."""
MAX_DEPTH = 40

_NULLS = {"", "~", "null", "Null", "NULL"}

_MAYBE_DEEP = re.compile(r"^[ \t?:-]{400}", re.MULTILINE)
"""A line that may open hundreds of block levels at once, as `- - - -` does."""
_BRACKETS = 500
"""With fewer opening brackets no text nests deep enough to hurt."""


class Scalar(NamedTuple):
    """A scalar and where it stands; `text` is None for null."""

    text: str | None
    place: Place


class YamlDocument:
    """One YAML document: `data` holds its values, `place` finds where a path was written."""

    def __init__(self, file: str, node: yaml.Node) -> None:
        self.file = file
        self._root = node
        self.problems: list[Problem] = []
        _bound(node, file)
        self.data: Any = self._value(node, ())

    def find_place(self, path: Path, *, key: bool = False) -> Place:
        """Where `path` stands, or the deepest part of it that exists; with `key`, where its last key stands."""
        node, mark = self._root, self._root.start_mark
        for depth, part in enumerate(path):
            found = _child(node, part)
            if found is None:
                break
            name, node = found
            mark = name.start_mark if key and depth == len(path) - 1 else node.start_mark
        return Place(self.file, mark.line + 1, mark.column + 1)

    def to_scalars(self) -> Any:  # noqa: ANN401 - YAML holds anything
        """The values once more, each scalar as Written; of a key that stands twice the first."""
        return self._written(self._root)

    def _written(self, node: yaml.Node) -> Any:  # noqa: ANN401 - YAML holds anything
        if isinstance(node, yaml.SequenceNode):
            return [self._written(item) for item in node.value]
        if isinstance(node, yaml.MappingNode):
            found: dict[str, Any] = {}
            for key, item in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value not in found:
                    found[key.value] = self._written(item)
            return found
        mark = node.start_mark
        return Scalar(None if _empty(node) else node.value, Place(self.file, mark.line + 1, mark.column + 1))

    def _value(self, node: yaml.Node, path: Path) -> Any:  # noqa: ANN401 - YAML holds anything
        if isinstance(node, yaml.ScalarNode):
            return None if not node.style and node.value in _NULLS else node.value
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._mapping(node, path)

    def _mapping(self, node: yaml.Node, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._report("bad-key", "a key must be plain text", key)
            elif key.value in found:
                self._report("duplicate-key", f"key {key.value!r} stands twice in one mapping", key)
            else:
                found[key.value] = self._value(item, (*path, key.value))
        return found

    def _report(self, code: str, message: str, node: yaml.Node) -> None:
        mark = node.start_mark
        self.problems.append(Problem(code, message, place=Place(self.file, mark.line + 1, mark.column + 1)))


def _child(node: yaml.Node, part: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    if isinstance(node, yaml.MappingNode):
        return next(((k, v) for k, v in node.value if getattr(k, "value", None) == part), None)
    return None


def _bound(node: yaml.Node, file: str) -> None:
    """Refuse documents that explode: memoised size with aliases expanded, depth, and cycles."""
    sizes: dict[int, int] = {}

    def size(node: yaml.Node, depth: int) -> int:
        if isinstance(node, yaml.ScalarNode):
            return 1
        if depth > MAX_DEPTH:
            what = f"is nested more than {MAX_DEPTH} levels deep, or holds itself"
            raise _refused(file, node.start_mark, "too-deep", what)
        if id(node) not in sizes:
            children = node.value if isinstance(node, yaml.SequenceNode) else [n for pair in node.value for n in pair]
            sizes[id(node)] = 1 + sum(size(child, depth + 1) for child in children)
        return sizes[id(node)]

    if size(node, 0) > MAX_VALUES:
        what = f"holds more than {MAX_VALUES} values once its aliases are expanded"
        raise _refused(file, node.start_mark, "too-large", what)


def _refused(file: str, mark: Any, code: str, what: str) -> SpecError:  # noqa: ANN401 - typeshed says it may be None
    return SpecError([Problem(code, f"this {what}", place=Place(file, mark.line + 1, mark.column + 1))])


def read_yaml(raw: bytes, file: str, max_bytes: int = MAX_BYTES) -> list[YamlDocument]:
    """Read every document of a YAML file; SpecError when it is too large, not UTF-8 or not YAML."""
    if len(raw) > max_bytes:
        message = f"the file is larger than {max_bytes >> 20} MB, the most that is read"
        raise SpecError([Problem("too-large", message, place=Place(file, 1, 1))])
    text = _decoded(raw, file)
    try:
        _shallow(text, file)
        nodes = list(yaml.compose_all(text, Loader=yaml.CBaseLoader))
        return [YamlDocument(file, node) for node in nodes if not _empty(node)]
    except yaml.YAMLError as error:
        raise SpecError([_syntax(error, text, file)]) from error


def _shallow(text: str, file: str) -> None:
    """Refuse deep nesting before PyYAML composes it: its C code recurses and ends the process (seen at 100,000)."""
    if text.count("[") + text.count("{") < _BRACKETS and not _MAYBE_DEEP.search(text):
        return
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CBaseLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH + 1:
            raise _refused(file, event.start_mark, "too-deep", f"is nested more than {MAX_DEPTH} levels deep")


def _empty(node: yaml.Node | None) -> bool:
    return node is None or (isinstance(node, yaml.ScalarNode) and not node.style and node.value in _NULLS)


def _decoded(raw: bytes, file: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        place = Place(file, before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1)
        message = f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise SpecError([Problem("not-utf8", message, place=place)]) from error


def _syntax(error: yaml.YAMLError, text: str, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:  # a character that YAML forbids
        where = getattr(error, "position", 0)
        message = "a control character stands here; YAML allows none"
        at = Place(file, text.count("\n", 0, where) + 1, where - text.rfind("\n", 0, where))
        return Problem("bad-yaml", message, place=at)
    place = Place(file, mark.line + 1, mark.column + 1)
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in line[: mark.column + 1]:
        at = Place(file, mark.line + 1, line.index("\t") + 1)
        return Problem("tab", "a tab indents this line; YAML allows spaces only", place=at)
    problem = getattr(error, "problem", None) or str(error)
    return Problem("bad-yaml", f"this is not YAML: {problem}", place=place)
