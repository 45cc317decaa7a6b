"""Files of sections and assignments, as systemd and NetworkManager write them.

    [Address]
    Address=10.0.0.1/31

Sections of the same name stay apart, since each `[Address]` is an address of its own. A key may stand several times.
"""

from typing import NamedTuple

from trackbed.fabric.importers.source import MAX_FILE_BYTES, NamedFile
from trackbed.fabric.model.problems import Place, Problem
from trackbed.fabric.model.source import Scalar, decode_text


class Section(NamedTuple):
    """A section: its name, its assignments in order, and the place of its head."""

    name: str
    entries: list[tuple[str, Scalar]]
    place: Place

    def list_values(self, key: str) -> list[Scalar]:
        """Return the values of a key; an empty value removes those before it."""
        values: list[Scalar] = []
        for name, scalar in self.entries:
            if name == key and scalar.text:
                values.append(scalar)
            elif name == key:
                values.clear()
        return values

    def find_value(self, key: str) -> Scalar | None:
        """Return the last value of a key; None if it is missing or empty."""
        values = self.list_values(key)
        return values[-1] if values else None


def read_sections(file: NamedFile, *, continuation: bool = False) -> tuple[list[Section], list[Problem]]:
    r"""Return the sections of a file, and a problem for each line that is none of a section.

    With `continuation`, a line that ends in `\` goes on in the next line, as in systemd.syntax(7).
    Raises SpecError if the file is too large or not UTF-8.
    """
    path, content = file
    sections: list[Section] = []
    problems: list[Problem] = []
    for number, line in _iter_lines(decode_text(content, path, MAX_FILE_BYTES), continuation=continuation):
        place = Place(path, number, 1)
        key, equals, value = line.partition("=")
        if line.startswith("[") and line.endswith("]"):
            sections.append(Section(line[1:-1], [], place))
        elif equals and sections:
            scalar = Scalar(value.strip(), Place(path, number, len(key) + 2))
            sections[-1].entries.append((key.strip(), scalar))
        else:
            message = "this line is no assignment KEY=VALUE below a section [NAME]; it is ignored"
            problems.append(Problem("bad-line", message, place=place, severity="warning"))
    return sections, problems


def _iter_lines(text: str, *, continuation: bool) -> list[tuple[int, str]]:
    """Return (number, text) of the lines that are not empty and no comments."""
    lines: list[tuple[int, str]] = []
    pending: list[str] = []
    start = 1
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped[:1] in {"#", ";"} or (not stripped and not pending):
            continue
        start = start if pending else number
        if continuation and stripped.endswith("\\"):
            pending.append(stripped[:-1])
            continue
        lines.append((start, " ".join([*pending, stripped])))
        pending = []
    return [*lines, *([(start, " ".join(pending))] if pending else [])]


def merge_sections(sections: list[Section], name: str) -> Section:
    """Return one section with the assignments of all sections of a name; empty without such a section."""
    members = [section for section in sections if section.name == name]
    place = members[0].place if members else Place("", 1, 1)
    return Section(name, [entry for section in members for entry in section.entries], place)
