"""Files of jobs, in YAML or JSON, whose values can be edited in place. All other text stays byte for byte.

An alias is kept while its value is the one at its anchor; else its text is replaced, so that rails added to one job do
not appear in another that shares its text. Files are first checked by `fabric.model.source.read_yaml`, which limits the
expansion of aliases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from trackbed.cluster.jobs.editing.compare import DocumentEditor
from trackbed.cluster.jobs.editing.edits import CannotEditError, Replacement, apply_edits, is_identical
from trackbed.cluster.jobs.editing.nodes import UnreadableValueError, parse_nodes, to_value
from trackbed.cluster.jobs.editing.style import Style
from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.model.source import YamlDocument, read_yaml

MAX_BYTES = 1024 * 1024
"""Largest size of a file. A job has about 10 kB."""
MAX_VALUES = 200_000
"""Largest number of values after the expansion of aliases; a file of MAX_BYTES without aliases rarely has more."""
_TEMPLATE = re.compile(rb"\{\{[-\s]*[.$a-z(]")
"""The start of an action of a Go template, or of an expression of Jinja."""
_BYTE_ORDER_MARK = "\ufeff"


class JobFile:
    """The documents of a file, which can be edited in place and rendered again."""

    def __init__(self, raw: bytes, name: str) -> None:
        """Parse the file; `name` is its name in messages.

        Raises SpecError, with file and line, if the file is too large, not UTF-8, not YAML, or has duplicate keys.
        """
        sources, problems = _read(raw, name)
        if sum(_count_values(source.data) for source in sources) > MAX_VALUES:
            message = f"the file holds more than {MAX_VALUES} values once its aliases are written out"
            problems.append(Problem("too-large", message, place=Place(name, 1, 1)))
        if problems:
            raise SpecError(problems)
        text = raw.decode()
        self._name = name
        self._mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
        self._text = text.removeprefix(_BYTE_ORDER_MARK)
        try:
            self._nodes = parse_nodes(self._text)
        except UnreadableValueError as error:
            raise SpecError([Problem("bad-yaml", str(error), place=Place(name, error.line, 1))]) from error
        self.documents = [to_value(node) for node in self._nodes]
        """The values of the documents, in order; edit them in place."""

    def render(self) -> str:
        """Return the text of the file with all changes.

        Raises SpecError for a document whose changes cannot be written without changing other text.
        """
        style = Style(self._text)
        edits: list[Replacement] = []
        for node, document in zip(self._nodes, self.documents, strict=True):
            if is_identical(to_value(node), document):
                continue
            try:
                edits += DocumentEditor(style).iter_edits(node, document)
            except CannotEditError as error:
                raise self._build_error(node.start, str(error)) from error
        text = apply_edits(self._text, [*self._iter_end_edits(edits), *edits])
        if edits and not text.endswith("\n") and self._find_difference(text) is not None:
            text += style.line_end  # a new block scalar at the end of a file without a line end has one
        difference = self._find_difference(text) if edits else None
        if difference is not None:
            raise self._build_error(self._nodes[difference].start, "its notation is too unusual")
        return self._mark + text

    def _iter_end_edits(self, edits: list[Replacement]) -> Iterator[Replacement]:
        """Yield the edit that a block scalar at the end of the file needs if it has no line end and text follows it.

        The line end that it gets would belong to its text; `-` in its header strips that.
        """
        if not any(edit.start == len(self._text) for edit in edits):
            return
        node = self._nodes[-1]
        while node.entries and not node.style:
            node = node.entries[-1].value
        header = self._text[node.start : node.end].partition("\n")[0]
        if node.style in ("|", ">") and "-" not in header:
            yield Replacement(node.start + 1, node.start + 1 + header.count("+"), "-")

    def _find_difference(self, text: str) -> int | None:
        """Return the index of the first document that the text does not have; None if it has all."""
        try:
            rendered = [to_value(node) for node in parse_nodes(text)]
        except yaml.YAMLError:
            rendered = []
        return next(
            (
                index
                for index, document in enumerate(self.documents)
                if not is_identical(rendered[index : index + 1], [document])
            ),
            None,
        )

    def _build_error(self, offset: int, reason: str) -> SpecError:
        line = self._text.count("\n", 0, offset) + 1
        message = f"a document begins here that cannot be edited ({reason}); write it in plain block style"
        return SpecError([Problem("bad-yaml", message, place=Place(self._name, line, 1))])


def _read(raw: bytes, name: str) -> tuple[list[YamlDocument], list[Problem]]:
    """Return the documents and their problems. Raises SpecError if the file is not YAML."""
    try:
        documents = read_yaml(raw, name, MAX_BYTES)
        problems = [problem for document in documents for problem in document.problems]
    except SpecError as error:
        documents, problems = [], list(error.problems)
    template = _TEMPLATE.search(raw)
    if problems and template:
        line = raw.count(b"\n", 0, template.start()) + 1
        message = "this is a template; render it first, for example with `helm template`"
        raise SpecError([Problem("template", message, place=Place(name, line, 1))])
    if problems and not documents:
        raise SpecError(problems)
    return documents, problems


def _count_values(data: Any) -> int:  # noqa: ANN401 - YAML holds anything
    if isinstance(data, dict):
        return 1 + sum(map(_count_values, data.values()))
    return 1 + sum(map(_count_values, data)) if isinstance(data, list) else 1
