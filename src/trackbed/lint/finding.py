"""What lint reports: a rule that a manifest breaks, and the line that breaks it.

Hit       what a rule's check yields: values and paths
Finding   what is printed: place, severity and fix filled in
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from trackbed.fabric.model.problems import Path, Place
from trackbed.lint.tree import Tree

Severity = Literal["error", "warning", "note"]
"""error: refused, or it cannot work. warning: it works now and then.
note: worth knowing; never changes the exit status."""


class Edit(NamedTuple):
    """A safe fix: at or after the place of the finding, on its line, `old` becomes `new`.

    A line that holds nothing but blanks and a comment afterwards is taken out.
    """

    old: str
    new: str


class Hit(NamedTuple):
    """One breach of a rule."""

    rule: str
    tree: Tree
    path: Path
    message: str
    """What is there and what would be right, without the rule's general reason."""
    key: bool = False
    """Point at the last key of the path, not at its value."""
    edit: Edit | None = None
    place: Place | None = None
    """Where it is, if the path cannot say."""


class Finding(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One finding, complete."""

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
    """Kind and name of the object it is in."""
    edit: Edit | None = None
    """The safe fix, where there is one."""

    @property
    def order(self) -> tuple[str, int, int, str, str]:
        """Findings are printed in this order."""
        return self.file, self.line, self.column, self.rule, self.message
