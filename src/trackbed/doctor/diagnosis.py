"""Diagnosis of nodes: the findings of all checks in causal order, and the one to fix first.

The first failing finding on a rail is the one to fix. It is the cause (`because`) of later findings on that rail. A
failure of the whole host is the cause of later findings in the same step.
"""

from collections.abc import Iterable, Iterator

import msgspec

from trackbed.doctor.across.excerpt import excerpt_node
from trackbed.doctor.across.judgement import judge_nodes
from trackbed.doctor.catalogue import load_catalogue
from trackbed.doctor.checks import run_checks
from trackbed.doctor.finding import BROKEN, Finding
from trackbed.doctor.view import NodeView

GOOD, FAULTY, UNKNOWN = 0, 1, 3
"""Exit statuses: no fault; at least one fault; no fault found, but something could not be checked."""


class LeftOut(msgspec.Struct, frozen=True, rename="camel"):
    """Steps of the chain without any finding, and why."""

    steps: tuple[str, ...]
    why: str


class Diagnosis(msgspec.Struct, frozen=True, rename="camel"):
    """All findings of one or more nodes, in causal order for each node; `first` is the one to fix first, if any."""

    findings: tuple[Finding, ...]
    first: Finding | None
    left_out: tuple[LeftOut, ...] = ()
    unlisted_passes: int = 0
    """Number of passed checks that are not among the findings, because a site has too many."""

    @property
    def exit_status(self) -> int:
        """Exit status of `trackbed doctor`."""
        if any(finding.verdict in BROKEN for finding in self.findings):
            return FAULTY
        return UNKNOWN if any(finding.verdict == "unknown" for finding in self.findings) else GOOD


def diagnose_nodes(views: Iterable[NodeView]) -> Diagnosis:
    """Run all checks on the view of each node, and the checks between the nodes; the findings of these come first."""
    views = tuple(views)
    nodes = {view.node.name: view.node for view in views}
    between = judge_nodes([excerpt_node(view) for view in views], nodes)
    findings = [
        *between,
        *(finding for view in views for finding in merge_findings(view.node.name, run_checks(view), between)),
    ]
    return Diagnosis(tuple(findings), select_finding_to_fix(findings), _list_left_out(findings, views))


def merge_findings(name: str, findings: Iterable[Finding], between: Iterable[Finding]) -> Iterator[Finding]:
    """Yield a node's own findings; those that follow a failure between nodes name it, and none repeats it."""
    ends = [(finding, end) for finding in between for end in finding.ends if end.node == name]
    known = {(finding.id, end.rail) for finding, end in ends}
    failures = [
        msgspec.structs.replace(finding, node=end.node, rail=end.rail)
        for finding, end in ends
        if finding.verdict == "fail"
    ]
    others = [finding for finding in findings if (finding.id, finding.rail) not in known]
    ordered = _mark_consequences(sort_findings([*failures, *others]))
    yield from (finding for finding in ordered if not finding.ends)


def _list_left_out(findings: Iterable[Finding], views: Iterable[NodeView]) -> tuple[LeftOut, ...]:
    """Return the steps of the catalogue that no finding is of, by reason."""
    judged = {finding.step for finding in findings}
    shares_host = any(view.host is None for view in views)
    reasons: dict[str, list[str]] = {}
    for step in dict.fromkeys(fault.step for fault in load_catalogue().values() if fault.step not in judged):
        why = _NO_PODS if step in _STEPS_OF_PODS else _SHARED if shares_host else _ABSENT
        reasons.setdefault(why, []).append(step)
    return tuple(LeftOut(tuple(steps), why) for why, steps in reasons.items())


_STEPS_OF_PODS = {"cni", "pod"}
_NO_PODS = "no pod here has rails"
_SHARED = "a container or network namespace shares its host, so the host's files and programs were not read"
_ABSENT = "nothing that they check is here"


_SEVERAL = 2
"""Nodes of a fault between nodes; one that a single node shows, such as two of its cables swapped, is its own."""


def select_finding_to_fix(findings: Iterable[Finding]) -> Finding | None:
    """Return the finding to fix first: the earliest failure, or without failures the earliest warning.

    A fault between nodes comes before those of one node.
    """
    order = _map_fault_positions()
    broken = [finding for finding in findings if finding.verdict in BROKEN]
    return min(
        broken,
        key=lambda finding: (
            finding.because is not None,
            finding.verdict != "fail",
            len({end.node for end in finding.ends}) < _SEVERAL,
            order.get(finding.id, -1),
        ),
        default=None,
    )


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings in causal order."""
    order = _map_fault_positions()
    return sorted(findings, key=lambda finding: order.get(finding.id, len(order)))


def _map_fault_positions() -> dict[str, int]:
    """Return the position of each fault in causal order, by fault id."""
    return {fault_id: position for position, fault_id in enumerate(load_catalogue())}


def _mark_consequences(findings: list[Finding]) -> Iterator[Finding]:
    """Yield the findings, with `because` set after a failure on the same rail, or of the host in the same step."""
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
