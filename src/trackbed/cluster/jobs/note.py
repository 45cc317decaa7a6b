"""What a pod template lacks, or says otherwise than the plan."""

from __future__ import annotations

from typing import Literal

import msgspec

Verdict = Literal["missing", "different", "extra"]


class Note(msgspec.Struct, frozen=True):
    """One difference between a pod template and the plan.

    missing: the template lacks it; `inject` adds it.
    different, extra: the user wrote it otherwise, or wrote what the plan has not; `inject` leaves it as it is.
    """

    verdict: Verdict
    code: str
    """Stable; the name of the fault that follows, where the catalogue has it."""
    what: str
    """What is there and what the plan has."""
    breaks: str
    """What goes wrong if it stays so."""
    path: str = ""
    """Where, from the top of the document."""

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.verdict}: {self.what}; {self.breaks} [{self.code}]"

    def below(self, path: str) -> Note:
        """The same note with `path` before its place."""
        return msgspec.structs.replace(self, path=".".join(part for part in (path, self.path) if part))
