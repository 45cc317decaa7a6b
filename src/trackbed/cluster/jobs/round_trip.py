"""YAML files read and written again so that comments, order, quotes and unknown fields survive (ruamel.yaml).

A document that was not changed is written as it was read, byte for byte. Aliases and merge keys are written out in
those that were changed: rails put on one of two places that share a piece of text must not appear on the other. The
text has been checked by `fabric.model.source.read` first, which bounds what aliases expand to.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq, merge_attrib
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from trackbed.cluster.jobs.template import plain
from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.model.source import read_yaml as check
from trackbed.fabric.yaml_text import render_documents

MAX_BYTES = 1024 * 1024
"""Largest file. A job has some 10 kB; reading 1 MB takes ruamel.yaml some 10 seconds."""
MAX_VALUES = 200_000
"""Most values once aliases are written out; a file of MAX_BYTES without aliases seldom has more."""
_START = re.compile(r"^(?=---(?:\s|$))", re.MULTILINE)
"""Where documents start: no other line may begin so, not even in a block of text (YAML 1.2.2, 9.1.2)."""
_LIST = re.compile(r"^(?P<pad> *)[^\s#-][^\n]*:[ ]*\n(?P<dash> *)- ", re.MULTILINE)
"""A key and the first item of its list."""


_UNREADABLE = (YAMLError, ValueError, LookupError, AttributeError, TypeError)
"""What ruamel.yaml raises at a tag whose value is not of it: `!!bool x` KeyError, `!!int 0x` IndexError, and so on."""


class File:
    """The documents of one file, to be edited in place and written again."""

    def __init__(self, raw: bytes, name: str) -> None:
        """SpecError, with the place, when it is too large, not UTF-8, not YAML, or has a key twice."""
        sources = check(raw, name, MAX_BYTES)
        problems = [problem for source in sources for problem in source.problems]
        if sum(_count(source.data) for source in sources) > MAX_VALUES:
            message = f"the file holds more than {MAX_VALUES} values once its aliases are written out"
            problems.append(Problem("too-large", message, place=Place(name, 1, 1)))
        if problems:
            raise SpecError(problems)
        text = raw.decode("utf-8-sig")
        self._parts = [_Part(part, name, text) for part in _START.split(text) if part]

    @property
    def documents(self) -> list[Any]:
        """The documents, in order."""
        return [part.document for part in self._parts]

    def text(self) -> str:
        """The file as it is now."""
        return "".join(part.text() for part in self._parts)


class _Part:
    """The text of one document, its values, and what they were."""

    def __init__(self, text: str, name: str, whole: str) -> None:
        self._text = text
        self._yaml = _yaml(text)
        try:
            self.document = _unshared(self._yaml.load(text), set())
        except _UNREADABLE as error:
            line = whole.count("\n", 0, whole.find(text)) + 1
            message = f"a document begins here that cannot be edited: {getattr(error, 'problem', None) or error}"
            raise SpecError([Problem("bad-yaml", message, place=Place(name, line, 1))]) from error
        self._before = plain(self.document)

    def text(self) -> str:
        if self.document == self._before:
            return self._text
        _style(self.document, self._before)
        written = io.StringIO()
        self._yaml.dump(self.document, written)
        return written.getvalue()


def _yaml(text: str) -> YAML:
    yaml = YAML(typ="rt", pure=True)
    yaml.preserve_quotes = True
    yaml.width = 1 << 20
    yaml.explicit_start = text.startswith("---")
    found = _LIST.search(text)
    if found and len(found["dash"]) > len(found["pad"]):
        yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _count(data: Any) -> int:  # noqa: ANN401 - YAML holds anything
    if isinstance(data, dict):
        return 1 + sum(map(_count, data.values()))
    return 1 + sum(map(_count, data)) if isinstance(data, list) else 1


def _unshared(node: Any, seen: set[int]) -> Any:  # noqa: ANN401 - YAML holds anything
    """The node with a copy of its own wherever a mapping or list stands a second time."""
    if not isinstance(node, (CommentedMap, CommentedSeq)):
        return node
    if id(node) in seen:
        return plain(node)
    seen.add(id(node))
    node.anchor.value = None
    if hasattr(node, merge_attrib):
        delattr(node, merge_attrib)
    for key in list(node) if isinstance(node, CommentedMap) else range(len(node)):
        node[key] = _unshared(node[key], seen)
    return node


def _style(node: Any, before: Any) -> None:  # noqa: ANN401 - YAML holds anything
    """Write new text so that every reader takes it for text: blocks where it has lines, quotes where it needs them."""
    if isinstance(node, dict):
        old = before if isinstance(before, dict) else {}
        pairs = [(key, value, old.get(key)) for key, value in node.items()]
    elif isinstance(node, list):
        known = before if isinstance(before, list) else []
        words = {one for one in known if isinstance(one, str)}
        pairs = [(at, value, _counterpart(known, words, at, value)) for at, value in enumerate(node)]
    else:
        return
    for key, value, was in pairs:
        if type(value) is str and value != was:
            node[key] = _styled(value)
        else:
            _style(value, was)


def _counterpart(known: list[Any], words: set[str], index: int, value: Any) -> Any:  # noqa: ANN401 - YAML holds anything
    """What an item of a list was before: words may have moved, all else is only appended."""
    if isinstance(value, str):
        return value if value in words else None
    return known[index] if index < len(known) else None


def _styled(value: str) -> str:
    """The reader of Kubernetes takes `on` or `1e3` for other than text; `yaml_text` knows which it does."""
    style: Callable[[str], str] = str
    if "\n" in value:
        style = LiteralScalarString
    elif next(render_documents([{"a": value}])).startswith('---\na: "'):
        style = DoubleQuotedScalarString
    return style(value)
