"""What is wrong with an input, and where.

SpecError            everything wrong in one reading; `problems` lists it in order of place
"""

from __future__ import annotations

from typing import NamedTuple

Path = tuple[str | int, ...]
"""Way from the top of a document: keys and list indexes, as written in the file."""


class Place(NamedTuple):
    """A position in a file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Problem(NamedTuple):
    """One thing wrong: stable code, whole message (what, and what would be right), place in the document."""

    code: str
    message: str
    path: Path = ()
    place: Place | None = None
    severity: str = "error"
    """error: nothing is planned. warning: the plan stands, but somebody will be surprised."""

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.severity}: {self.message} [{self.code}]"


class SpecError(Exception):
    """An input that cannot be used; holds every problem found."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.place or Place("", 0, 0), p.code)))
        super().__init__("\n".join(map(str, self.problems)))
