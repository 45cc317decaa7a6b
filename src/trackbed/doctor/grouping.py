"""Findings as people read them: one line for several of a kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trackbed.doctor.finding import Finding


class FindingGroup(NamedTuple):
    """One finding, or several of one kind on several rails."""

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
    """Group findings for people: findings of one kind on several rails of a node become one."""
    groups: dict[tuple[str, str | None, str, str | None], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.id, finding.node, finding.verdict, finding.because), []).append(finding)
    return tuple(_merge(group) for group in groups.values())


def _merge(group: list[Finding]) -> FindingGroup:
    first = group[0]
    rails = sorted({f.rail for f in group if f.rail is not None})
    on = f"rail{'s' if len(rails) > 1 else ''} {_format_numbers(rails)}" if rails else ""
    where = ", ".join(part for part in (first.node or "", on) if part)
    evidence = first.evidence + (f" (and {len(group) - 1} more)" if len(group) > 1 else "")
    because = first.because or ""
    return FindingGroup(
        first.verdict, first.id, first.step, first.title, where, evidence, first.cause, first.fix, because
    )


def _format_numbers(numbers: Sequence[int]) -> str:
    """Write 0, 1, 2, 5 as 0-2, 5."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)
