"""Run all checks in the order of the chain and find the first fault to mend.

The first failing finding on a rail is the one to mend. Later findings on that rail are marked `because` of it, and so
are findings that follow a failure of the whole host in the same step. Findings without enough data stay unknown.
"""

from collections.abc import Iterable, Iterator

import msgspec

from trackbed.doctor.catalogue import load_catalogue
from trackbed.doctor.checks import CHECKS
from trackbed.doctor.finding import BROKEN, Finding
from trackbed.doctor.view import NodeView

GOOD, FOUND, UNKNOWN = 0, 1, 3
"""Exit status: no fault, at least one fault, no fault but something could not be checked."""


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
    """Run all checks on all views. Pure: the views hold everything that was read."""
    findings = [finding for view in views for finding in _check_node(view)]
    return Diagnosis(tuple(findings), find_first(findings))


def find_first(findings: Iterable[Finding]) -> Finding | None:
    """Return the finding to mend first: the earliest failure, or without failures the earliest warning."""
    order = _number_faults()
    broken = [finding for finding in findings if finding.verdict in BROKEN]
    return min(
        broken,
        key=lambda finding: (finding.because is not None, finding.verdict != "fail", order.get(finding.id, -1)),
        default=None,
    )


def _number_faults() -> dict[str, int]:
    """Return the position of each fault in the chain."""
    return {fault_id: position for position, fault_id in enumerate(load_catalogue())}


def _check_node(view: NodeView) -> list[Finding]:
    order = _number_faults()
    findings = sorted((finding for check in CHECKS for finding in check(view)), key=lambda finding: order[finding.id])
    return list(_mark_consequences(findings))


def _mark_consequences(findings: list[Finding]) -> Iterator[Finding]:
    """Set `because` on findings that follow a failure on the same rail, or of the whole host in the same step."""
    first: dict[int | str, str] = {}
    for finding in findings:
        scope = finding.step if finding.rail is None else finding.rail
        earlier = first.get(scope) or first.get(finding.step)
        if finding.verdict != "pass" and earlier is not None and earlier != finding.id:
            yield msgspec.structs.replace(finding, because=earlier)
            continue
        if finding.verdict == "fail":
            first.setdefault(scope, finding.id)
        yield finding
