"""Comparison of the nodes of a Fabric by their reports, and its condition and findings: pure functions.

The checks are those of doctor between nodes. A node can only be named as an end by what another one reports, so every
end of a fault is a suspect.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Literal, NamedTuple, cast

from msgspec import UNSET

from trackbed.cluster.controller.decide import format_node_count
from trackbed.cluster.controller.excerpts import build_excerpt
from trackbed.cluster.controller.slices import Slices
from trackbed.cluster.resources.conditions import Condition
from trackbed.cluster.resources.fabric import CONSISTENT, FabricFinding, FabricFindingEnd
from trackbed.cluster.resources.node_report import ReportError
from trackbed.doctor.across.excerpt import NodeExcerpt
from trackbed.doctor.across.judgement import CHECKS, judge_nodes
from trackbed.doctor.finding import BROKEN, FaultEnd, Finding
from trackbed.doctor.unjudged import UNREAD

_MAX_FINDINGS = 10
_MAX_ENDS = 8
_MAX_CHARACTERS = 1024
_MAX_PART = 160

Fault = tuple[str, tuple[FaultEnd, ...]]
"""Code and first two ends of a fault, by which it is known from one comparison to the next."""
_ENDS_OF_FAULT = 2


class NodeComparison(NamedTuple):
    """The findings between the nodes of a Fabric."""

    findings: tuple[Finding, ...]
    node_count: int
    unreadable: Mapping[str, str]
    """Node -> why its report could not be decoded."""
    unread: Mapping[str, Collection[str]]
    """Code of a check -> nodes of which it could not be made."""

    @property
    def broken(self) -> list[Finding]:
        """Failures and warnings, failures first."""
        return [finding for finding in self.findings if finding.verdict in BROKEN]


def compare_nodes(reports: Mapping[str, bytes | None], slices: Slices) -> NodeComparison:
    """Compare the nodes whose reports are given as JSON; None for a node without one."""
    excerpts, unreadable = [], {}
    for name, report_json in reports.items():
        try:
            excerpts.append(build_excerpt(slices.plans[name], report_json, slices.nodes[name].digest))
        except ReportError as error:
            unreadable[name] = str(error)
            excerpts.append(NodeExcerpt(name, failure=f"its report is not understood: {error}"))
    findings = judge_nodes(excerpts, slices.plans)
    return NodeComparison(findings, len(excerpts), unreadable, _map_unread_nodes(excerpts))


def _map_unread_nodes(excerpts: Iterable[NodeExcerpt]) -> dict[str, frozenset[str]]:
    return {
        check.fault_id: frozenset(excerpt.node for excerpt in excerpts if getattr(excerpt, check.part) is None)
        for check in CHECKS
    }


def build_condition(comparison: NodeComparison) -> Condition:
    """Return condition Consistent: False for a fault, Unknown if none is found but a node was not read in full."""
    broken, gap = comparison.broken, _describe_gap(comparison)
    if broken:
        reason = "Broken" if broken[0].verdict == "fail" else "Differs"
        faults = f"{len(broken)} fault{'s' if len(broken) > 1 else ''} between nodes"
        first = f"{broken[0].id}: {broken[0].evidence}; any of these ends may be the wrong one"
        message = "; ".join(filter(None, (f"{faults}: {first}", gap)))
        return Condition(CONSISTENT, "False", reason, message[:_MAX_CHARACTERS])
    nodes = format_node_count(comparison.node_count)
    if gap or not comparison.node_count:
        message = f"no fault is known between {nodes}; {gap or 'none is in the cluster'}"
        return Condition(CONSISTENT, "Unknown", "NotReported", message[:_MAX_CHARACTERS])
    return Condition(CONSISTENT, "True", "NothingDiffers", f"{nodes} compared")


def _describe_gap(comparison: NodeComparison) -> str:
    """Describe what is not known, nodes without a report first; empty if all is known."""
    silent = [finding for finding in comparison.findings if finding.id == UNREAD.id]
    if silent:
        count = sum(len(finding.ends) for finding in silent)
        return f"not compared: {count} of {format_node_count(comparison.node_count)}: {_abridge(silent[0].evidence)}"
    unknown = next((finding for finding in comparison.findings if finding.verdict == "unknown"), None)
    return f"not compared in full: {unknown.id}: {_abridge(unknown.evidence)}" if unknown else ""


def _abridge(text: str) -> str:
    """Return the text without its middle if it is long: it begins with the nodes, and ends with the reason."""
    return text if len(text) <= 2 * _MAX_PART else f"{text[:_MAX_PART]}...{text[-_MAX_PART:]}"


def list_findings(comparison: NodeComparison) -> tuple[FabricFinding, ...]:
    """Return the first few faults between nodes, each with its first few ends."""
    return tuple(
        FabricFinding(
            finding.id,
            cast("Literal['fail', 'warn']", finding.verdict),
            describe_fault(finding),
            tuple(
                FabricFindingEnd(end.node, UNSET if end.rail is None else end.rail) for end in finding.ends[:_MAX_ENDS]
            ),
            len(finding.ends),
        )
        for finding in comparison.broken[:_MAX_FINDINGS]
    )


def describe_fault(finding: Finding) -> str:
    """Return what is expected, what was reported, and the remedy."""
    return "; ".join(filter(None, (finding.title, finding.evidence, finding.fix)))[:_MAX_CHARACTERS]


def map_faults(comparison: NodeComparison) -> dict[Fault, Finding]:
    """Return the findings of all faults between nodes."""
    return {(finding.id, finding.ends[:_ENDS_OF_FAULT]): finding for finding in comparison.broken}


def restore_faults(findings: Collection[FabricFinding], current: Iterable[Fault]) -> set[Fault]:
    """Return the faults that an earlier controller knew, by the findings that it wrote.

    If it knew more than it wrote, those of `current` count as known.
    """
    written = {
        (finding.code, tuple(FaultEnd(end.node, None if end.rail is UNSET else end.rail) for end in ends))
        for finding in findings
        if (ends := finding.ends[:_ENDS_OF_FAULT])
    }
    return written | set(current) if len(findings) >= _MAX_FINDINGS else written


def is_gone(fault: Fault, comparison: NodeComparison) -> bool:
    """Return whether a fault that the comparison lacks is mended, and not just unknown."""
    code, ends = fault
    return not any(end.node in comparison.unread.get(code, ()) for end in ends)
