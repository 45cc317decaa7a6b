"""Violations of rules.

Breach        yielded by a check: rule, path and message
LintProblem   printed: with place, severity and fix
"""

from typing import Literal, NamedTuple

import msgspec

from trackbed.fabric.model.problems import Path, Place
from trackbed.lint.tree import Tree

Severity = Literal["error", "warning", "note"]
"""error: an API server refuses it, or it cannot work. warning: it works in some cases only.
note: information, without effect on the exit status."""


class Edit(NamedTuple):
    """A safe fix: replace the first `old` at or after the problem's column, on its line, by `new`.

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
    """The value, and a right one. The reason is the rule's."""
    key: bool = False
    """Whether the place is that of the path's last key instead of its value."""
    edit: Edit | None = None
    place: Place | None = None
    """Place of the violation, if it is not the path's."""


class LintProblem(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A violation with its place, severity and fix."""

    rule: str
    severity: Severity
    file: str
    line: int
    """From 1."""
    column: int
    """From 1."""
    message: str
    fix: str
    object: str = ""
    """Kind and name of the object."""
    edit: Edit | None = None
    """The safe fix, or None."""

    @property
    def order(self) -> tuple[str, int, int, str, str]:
        """Sort key of the output."""
        return self.file, self.line, self.column, self.rule, self.message
