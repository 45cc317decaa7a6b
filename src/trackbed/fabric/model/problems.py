"""Problems of an input, with their place in it.

SpecError            all problems of one input; `problems` has them in order of place
"""

from __future__ import annotations

from typing import NamedTuple, Union

Path = tuple[Union[str, int], ...]
"""Path from the top of a document: keys and list indexes, as written in the file."""


class Place(NamedTuple):
    """A position in a file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Problem(NamedTuple):
    """A problem: stable code, complete message (the error and the remedy), place in the document."""

    code: str
    message: str
    path: Path = ()
    place: Place | None = None
    severity: str = "error"
    """error: nothing is planned. warning: the plan is valid, but probably not as intended."""

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        return f"{place}{self.severity}: {self.message} [{self.code}]"


class SpecError(Exception):
    """An invalid input; holds all of its problems."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.place or Place("", 0, 0), problem.code)))
        super().__init__("\n".join(map(str, self.problems)))
