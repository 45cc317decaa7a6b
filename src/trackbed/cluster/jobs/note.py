"""Notes: differences between a pod template and the plan."""

from __future__ import annotations

from typing import Literal

import msgspec

Verdict = Literal["missing", "different", "extra"]


class Note(msgspec.Struct, frozen=True):
    """A difference between a pod template and the plan.

    missing      the template lacks a planned value; `inject_rails` adds it
    different    the user set another value; `inject_rails` keeps it
    extra        the user set a value that is not in the plan; `inject_rails` keeps it
    """

    verdict: Verdict
    code: str
    """Stable identifier of the difference; also the name of the resulting fault, if the catalogue has one."""
    difference: str = msgspec.field(name="what")
    """The value in the template and the planned value, as text."""
    breaks: str
    """The effect of the difference on the job."""
    path: str = ""
    """Path of the field, from the top of the document."""
    role: str = ""
    """Role of the pods, such as Master; empty if the job has only one."""

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.verdict}: {self.difference}; {self.breaks} [{self.code}]"

    def with_parent(self, parent_path: str) -> Note:
        """Return the note with `parent_path` in front of its own path."""
        return msgspec.structs.replace(self, path=".".join(part for part in (parent_path, self.path) if part))
