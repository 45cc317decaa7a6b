"""Violations of rules.

Breach        what a check yields: rule, path and message
LintProblem   what is printed: the violation with its place, severity and fix
"""

from typing import Literal, NamedTuple

import msgspec

from trackbed.fabric.model.problems import Path, Place
from trackbed.lint.tree import Tree

Severity = Literal["error", "warning", "note"]
"""error: an API server refuses it, or it cannot work. warning: it works in some cases only.
note: information, without effect on the exit status."""


class Edit(NamedTuple):
    """A safe fix: replace the first `old` at or after the problem's column, on its line, with `new`.

    A line that is blank afterwards is removed.
    """

    old: str
    new: str


class Breach(NamedTuple):
    """One violation of a rule."""

    rule: str
    tree: Tree
    path: Path
    message: str
    """What is wrong, and a correct value. The rule gives the reason."""
    key: bool = False
    """Whether the violation is at the last key of `path` instead of its value."""
    edit: Edit | None = None
    place: Place | None = None
    """Place of the violation; None for the place of `path`."""
    severity: Severity | None = None
    """None for that of the rule."""


class LintProblem(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A violation with its place, severity and fix."""

    rule: str
    severity: Severity
    file: str
    line: int
    """Line number, counted from 1."""
    column: int
    """Column number, counted from 1."""
    message: str
    fix: str
    object: str = ""
    """Kind and name of the object that has the violation."""
    edit: Edit | None = None

    @property
    def order(self) -> tuple[str, int, int, str, str]:
        """Key by which the output is sorted."""
        return self.file, self.line, self.column, self.rule, self.message
