"""A parsed value with the places of its parts, even inside texts such as the JSON of a `config: |` block.

A problem in such a block names the line inside the block.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from trackbed.fabric.model.problems import Path, Place, SpecError
from trackbed.fabric.model.source import YamlDocument, read_yaml


class TextPosition(NamedTuple):
    """The position in its file of an embedded text, such as JSON in a YAML block.

    Line `n` of the text is line `line + n` of the file, indented by `column`.
    """

    place: Place
    """Place of the text's first character."""
    line: int
    column: int
    exact: bool
    """False if lines of the text do not map to lines of the file; every part is then at `place`."""


class Tree(NamedTuple):
    """A parsed value with the places of its parts in a file."""

    value: Any
    source: YamlDocument
    lines: tuple[str, ...]
    """Lines of the source, from which the indentation of blocks is measured."""
    prefix: Path = ()
    position: TextPosition | None = None

    def get(self, *path: str | int) -> Any:  # noqa: ANN401 - a YAML value has any type
        """Return the value at `path`, or None."""
        return dig(self.value, *path)

    def find_place(self, path: Path = (), *, key: bool = False) -> Place:
        """Return the place of the value at `path`; with `key`, the place of its last key."""
        place = self.source.find_place((*self.prefix, *path), key=key)
        if self.position is None:
            return place
        if not self.position.exact:
            return self.position.place
        file = self.position.place.file
        return Place(file, self.position.line + place.line, self.position.column + place.column)

    def get_subtree(self, *path: str | int) -> Tree:
        """Return the tree of the value at `path`."""
        return self._replace(value=self.get(*path), prefix=(*self.prefix, *path))

    def locate_text(self, path: Path, text: str) -> TextPosition:
        """Return the position in the file of the text at `path`."""
        place = self.find_place(path)
        raw = self.source.find_place((*self.prefix, *path))
        header = self.lines[raw.line - 1][raw.column - 1 :] if raw.line <= len(self.lines) else ""
        if not header.startswith("|") or (self.position and not self.position.exact):
            quote = header[:1] in {"'", '"'}
            exact = (
                self.position is None and "\n" not in text and text in header
            )  # the text is on one line and has no escapes
            return TextPosition(place, place.line - 1, place.column - 1 + quote, exact=exact)
        return TextPosition(place, place.line, self._measure_indentation(raw.line, text), exact=True)

    def _measure_indentation(self, header: int, text: str) -> int:
        """Return the indentation of the block below line `header`, measured at its first line that is not blank."""
        for number, line in enumerate(text.split("\n")):
            if line.strip() and header + number < len(self.lines):
                return max(_count_indentation(self.lines[header + number]) - _count_indentation(line), 0)
        return 0


def embed_json(tree: Tree, path: Path, text: str, value: object) -> Tree:
    """Return the tree of `value`, which was parsed from the JSON `text` at `path`."""
    position = tree.locate_text(path, text)
    try:
        sources = read_yaml(text.encode(), position.place.file)
    except SpecError:
        sources = []
    if not sources:
        return Tree(value, read_yaml(b"[]", position.place.file)[0], (), (), position._replace(exact=False))
    return Tree(value, sources[0], tuple(text.split("\n")), (), position)


def _count_indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def dig(value: object, *path: str | int) -> Any:  # noqa: ANN401 - a YAML value has any type
    """Return the part of a value at `path`, or None."""
    for part in path:
        if isinstance(part, str) and isinstance(value, dict):
            value = value.get(part)
        elif isinstance(part, int) and isinstance(value, list) and -len(value) <= part < len(value):
            value = value[part]
        else:
            return None
    return value


def enumerate_mappings(value: object) -> list[tuple[int, dict[str, Any]]]:
    """Return the mappings in a list, each with its index; empty for any other value."""
    return [(n, item) for n, item in enumerate(value) if isinstance(item, dict)] if isinstance(value, list) else []


def enumerate_texts(value: object) -> list[tuple[int, str]]:
    """Return the texts in a list, each with its index; empty for any other value."""
    return [(n, item) for n, item in enumerate(value) if isinstance(item, str)] if isinstance(value, list) else []
