"""Walk the chain and name the first broken link.

Checks run in the order of the chain over one View. On each rail the first finding that fails is the one to mend; what
comes after it on that rail is marked `because` of it, as is what comes after a failure of the whole host in the same
step; what could not be judged stays unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trackbed.doctor.catalogue import load_catalogue
from trackbed.doctor.checks import CHECKS
from trackbed.doctor.finding import BROKEN, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trackbed.doctor.view import NodeView

GOOD, FOUND, UNKNOWN = 0, 1, 3
"""Exit status: sound, broken, nobody could tell."""


class Diagnosis(msgspec.Struct, frozen=True, rename="camel"):
    """All findings of some nodes, in the order of the chain; `first` is the one to mend first."""

    findings: tuple[Finding, ...]
    first: Finding | None

    @property
    def status(self) -> int:
        """Exit status of the command."""
        if any(finding.verdict in BROKEN for finding in self.findings):
            return FOUND
        return UNKNOWN if any(finding.verdict == "unknown" for finding in self.findings) else GOOD


def diagnose(views: Iterable[NodeView]) -> Diagnosis:
    """Judge every view. Pure: all looking was done before."""
    found = [finding for view in views for finding in _ordered(view)]
    return Diagnosis(tuple(found), find_first(found))


def find_first(findings: Iterable[Finding]) -> Finding | None:
    """The finding to mend first: the earliest that fails; without any, the earliest warning."""
    place = {fault: number for number, fault in enumerate(load_catalogue())}
    broken = [f for f in findings if f.verdict in BROKEN]
    return min(broken, key=lambda f: (f.because is not None, f.verdict != "fail", place.get(f.id, -1)), default=None)


def _ordered(view: NodeView) -> list[Finding]:
    place = {fault: number for number, fault in enumerate(load_catalogue())}
    found = sorted((f for check in CHECKS for f in check(view)), key=lambda f: place[f.id])
    return list(_explained(found))


def _explained(found: list[Finding]) -> Iterator[Finding]:
    """Mark what an earlier failure on the same rail explains, or one of the whole host in the same step."""
    first: dict[int | str, str] = {}
    for finding in found:
        place = finding.step if finding.rail is None else finding.rail
        earlier = first.get(place) or first.get(finding.step)
        if finding.verdict != "pass" and earlier is not None and earlier != finding.id:
            finding = msgspec.structs.replace(finding, because=earlier)  # noqa: PLW2901 - the same finding, explained
        elif finding.verdict == "fail":
            first.setdefault(place, finding.id)
        yield finding
