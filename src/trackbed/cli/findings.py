"""Output of findings: the first to fix, its consequences, and checks that could not be made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trackbed.cli.options import emit_json
from trackbed.cli.terminal import escape_line, print_prose, print_styled

if TYPE_CHECKING:
    from trackbed.doctor.diagnosis import Diagnosis
    from trackbed.doctor.grouping import FindingGroup

COLOURS = {"fail": "red", "warn": "yellow", "unknown": "cyan", "pass": "green"}


def print_diagnosis(diagnosis: Diagnosis, output_format: str, *, everything: bool = False) -> None:
    """Print a diagnosis as text or JSON."""
    if output_format == "json":
        emit_json(
            {
                "status": diagnosis.exit_status,
                "first": diagnosis.first,
                "findings": diagnosis.findings,
                "leftOut": diagnosis.left_out,
            }
        )
        return
    from trackbed.doctor.grouping import group_findings, select_alike

    passed = [f for f in diagnosis.findings if f.verdict == "pass"]
    first = [] if diagnosis.first is None else select_alike(diagnosis.findings, diagnosis.first)
    shown = {id(finding) for finding in first}
    others = [f for f in diagnosis.findings if f.verdict != "pass" and id(f) not in shown]
    if first:
        print_styled(click.style("Fix this first:", bold=True))
        _print_finding_details(group_findings(first)[0])
    for label, wanted in (("Also:", False), ("Consequences, or not judged because of it:", True)):
        chosen = group_findings([f for f in others if (f.because is not None) is wanted])
        if chosen:
            print_styled(click.style(label, bold=True))
        for finding in chosen:
            _print_finding(finding)
    for finding in group_findings(passed) if everything else ():
        _print_finding(finding)
    for left_out in diagnosis.left_out:
        print_prose(escape_line(f"not checked: {', '.join(left_out.steps)} ({left_out.why})"))
    _print_summary(diagnosis, len(passed))


def _print_finding_details(finding: FindingGroup) -> None:
    _print_beside_badge(finding, finding.where)
    for label, text in (("saw", finding.evidence), ("why", finding.cause), ("fix", finding.fix)):
        if text:
            print_prose(f"          {label}: {escape_line(text)}", len(label) + 2)


def _print_finding(finding: FindingGroup) -> None:
    text = ": ".join(part for part in (finding.where, finding.evidence) if part)
    _print_beside_badge(finding, text)


def _print_beside_badge(finding: FindingGroup, text: str) -> None:
    badge = click.style(f"{finding.verdict:7}", fg=COLOURS[finding.verdict], bold=True)
    print_styled(f"  {badge} {finding.id}  {escape_line(text)}", hanging=8)


def _print_summary(diagnosis: Diagnosis, passed: int) -> None:
    passed += diagnosis.unlisted_passes
    total = len(diagnosis.findings) + diagnosis.unlisted_passes
    broken = sum(f.verdict in {"fail", "warn"} for f in diagnosis.findings)
    unknown = total - passed - broken
    word = "sound" if diagnosis.exit_status == 0 else "broken" if broken else "unknown"
    summary = f"{word}: {passed} of {total} checks passed, {broken} broken, {unknown} unknown"
    print_styled(click.style(summary, bold=True))
