"""A value and where its parts were written, also where it is text inside another file's text.

A `config: |` block holds JSON; a rule that reads it names the line inside the block, not the block.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from trackbed.fabric.model.problems import Path, Place, SpecError
from trackbed.fabric.model.source import YamlDocument, read_yaml


class Inside(NamedTuple):
    """Where a text stands in its file: line `n` of the text is line `line + n` there, shifted `column` to the right."""

    place: Place
    """Of the text's first character, or of the whole text where its lines cannot be told apart."""
    line: int
    column: int
    exact: bool


class Tree(NamedTuple):
    """A value that can say where each of its parts was written."""

    value: Any
    source: YamlDocument
    lines: tuple[str, ...]
    """Of the text this was read from, to find the indentation of blocks."""
    prefix: Path = ()
    inside: Inside | None = None

    def get(self, *path: str | int) -> Any:  # noqa: ANN401 - YAML holds anything
        """The value at `path`, None where there is none."""
        return dig(self.value, *path)

    def place(self, path: Path = (), *, key: bool = False) -> Place:
        """Where `path` was written in the file; with `key`, where its last key was."""
        found = self.source.find_place((*self.prefix, *path), key=key)
        if self.inside is None:
            return found
        if not self.inside.exact:
            return self.inside.place
        file = self.inside.place.file
        return Place(file, self.inside.line + found.line, self.inside.column + found.column)

    def under(self, *path: str | int) -> Tree:
        """The part at `path` as a tree of its own."""
        return self._replace(value=self.get(*path), prefix=(*self.prefix, *path))

    def inner(self, path: Path, text: str) -> Inside:
        """Where the text written at `path` stands."""
        place = self.place(path)
        raw = self.source.find_place((*self.prefix, *path))
        header = self.lines[raw.line - 1][raw.column - 1 :] if raw.line <= len(self.lines) else ""
        if not header.startswith("|") or (self.inside and not self.inside.exact):
            quote = header[:1] in {"'", '"'}
            return Inside(place, place.line - 1, place.column - 1 + quote, exact=self._plain(header, text))
        return Inside(place, place.line, self._indentation(raw.line, text), exact=True)

    def _plain(self, header: str, text: str) -> bool:
        """Whether a text stands on one line exactly as it reads: nothing escaped, nothing folded."""
        return self.inside is None and "\n" not in text and text in header

    def _indentation(self, header: int, text: str) -> int:
        """How far the block below line `header` is indented: its first written line tells."""
        for number, line in enumerate(text.split("\n")):
            if line.strip() and header + number < len(self.lines):
                return max(_blanks(self.lines[header + number]) - _blanks(line), 0)
        return 0


def embedded(tree: Tree, path: Path, text: str, value: object) -> Tree:
    """`value`, read from the JSON `text` written at `path`."""
    inside = tree.inner(path, text)
    try:
        sources = read_yaml(text.encode(), inside.place.file)
    except SpecError:
        sources = []
    if not sources:
        return Tree(value, read_yaml(b"[]", inside.place.file)[0], (), (), inside._replace(exact=False))
    return Tree(value, sources[0], tuple(text.split("\n")), (), inside)


def _blanks(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def dig(value: object, *path: str | int) -> Any:  # noqa: ANN401 - YAML holds anything
    """The part of a value at `path`, None where a step leads nowhere."""
    for part in path:
        if isinstance(part, str) and isinstance(value, dict):
            value = value.get(part)
        elif isinstance(part, int) and isinstance(value, list) and -len(value) <= part < len(value):
            value = value[part]
        else:
            return None
    return value


def mappings(value: object) -> list[tuple[int, dict[str, Any]]]:
    """The mappings in a list, each with its index; nothing where `value` is no list."""
    return [(n, item) for n, item in enumerate(value) if isinstance(item, dict)] if isinstance(value, list) else []


def texts(value: object) -> list[tuple[int, str]]:
    """The texts in a list, each with its index; nothing where `value` is no list."""
    return [(n, item) for n, item in enumerate(value) if isinstance(item, str)] if isinstance(value, list) else []
