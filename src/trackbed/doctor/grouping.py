"""Findings grouped for output: one line for findings of one kind on several rails and nodes."""

from collections.abc import Sequence
from typing import NamedTuple

from trackbed.doctor.evidence import summarize_items
from trackbed.doctor.finding import Finding
from trackbed.fabric.host_ranges import fold_hosts


class FindingGroup(NamedTuple):
    """One finding, or several of one kind on several rails and nodes; `where` names the nodes and the rails."""

    verdict: str
    id: str
    step: str
    title: str
    where: str
    evidence: str
    cause: str
    fix: str
    because: str


def group_findings(findings: Sequence[Finding]) -> tuple[FindingGroup, ...]:
    """Group findings of one kind on the same rails of several nodes; every other finding is a group of its own."""
    of_nodes: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        of_nodes.setdefault((*_get_kind(finding), finding.node), []).append(finding)
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for of_node in of_nodes.values():
        rails = frozenset(finding.rail for finding in of_node)
        groups.setdefault((*_get_kind(of_node[0]), rails), []).extend(of_node)
    return tuple(_merge_findings(group) for group in groups.values())


def select_alike(findings: Sequence[Finding], finding: Finding) -> list[Finding]:
    """Return the findings of the same kind on the same rail of other nodes, after the finding itself."""
    others = [
        other
        for other in findings
        if other.node != finding.node and other.rail == finding.rail and _get_kind(other) == _get_kind(finding)
    ]
    return [finding, *(others if not finding.ends else ())]


def _get_kind(finding: Finding) -> tuple[object, ...]:
    return finding.id, finding.verdict, finding.because, finding.ends


def _merge_findings(group: list[Finding]) -> FindingGroup:
    """Merge findings of one kind into a group; its evidence is that of the first finding."""
    first = group[0]
    rails = sorted({finding.rail for finding in group if finding.rail is not None})
    rail_list = f"rail{'s' if len(rails) > 1 else ''} {_format_numbers(rails)}" if rails else ""
    nodes = list(dict.fromkeys(finding.node for finding in group if finding.node))
    where = ", ".join(part for part in (fold_hosts(nodes), rail_list) if part)
    if len(first.ends) > 1:
        where = summarize_items([str(end) for end in first.ends])
    evidence = first.evidence + (f" (and {len(group) - 1} more)" if len(group) > 1 else "")
    because = first.because or ""
    return FindingGroup(
        first.verdict, first.id, first.step, first.title, where, evidence, first.cause, first.fix, because
    )


def _format_numbers(numbers: Sequence[int]) -> str:
    """Format sorted numbers as ranges: 0, 1, 2, 5 becomes `0-2, 5`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][-1] == number - 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    return ", ".join(f"{span[0]}-{span[-1]}" if len(span) > 1 else str(span[0]) for span in spans)
