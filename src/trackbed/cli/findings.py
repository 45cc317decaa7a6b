"""Findings as text: the first to fix, its consequences, and checks that could not be made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trackbed.cli.options import emit_json

if TYPE_CHECKING:
    from trackbed.doctor.diagnosis import Diagnosis
    from trackbed.doctor.grouping import FindingGroup

COLOURS = {"fail": "red", "warn": "yellow", "unknown": "cyan", "pass": "green"}


def show(diagnosis: Diagnosis, output_format: str, *, everything: bool = False) -> None:
    """Print a diagnosis as text or JSON."""
    if output_format == "json":
        emit_json({"status": diagnosis.status, "first": diagnosis.first, "findings": diagnosis.findings})
        return
    from trackbed.doctor.grouping import group_findings

    passed = [f for f in diagnosis.findings if f.verdict == "pass"]
    others = [f for f in diagnosis.findings if f.verdict != "pass" and f != diagnosis.first]
    if diagnosis.first is not None:
        click.secho("Fix this first:", bold=True)
        _print_details(group_findings([diagnosis.first])[0])
    for label, wanted in (("Also:", False), ("Consequences, or not judged because of it:", True)):
        chosen = group_findings([f for f in others if (f.because is not None) is wanted])
        if chosen:
            click.secho(label, bold=True)
        for finding in chosen:
            _print_line(finding)
    for finding in group_findings(passed) if everything else ():
        _print_line(finding)
    _print_summary(diagnosis, len(passed))


def _render_badge(verdict: str) -> str:
    return click.style(f"{verdict:7}", fg=COLOURS[verdict], bold=True)


def _print_details(finding: FindingGroup) -> None:
    click.echo(f"  {_render_badge(finding.verdict)} {finding.id}  {finding.where}")
    for label, text in (("saw", finding.evidence), ("why", finding.cause), ("fix", finding.fix)):
        if text:
            click.echo(f"          {label}: {text}")


def _print_line(finding: FindingGroup) -> None:
    evidence = f": {finding.evidence}" if finding.evidence else ""
    click.echo(f"  {_render_badge(finding.verdict)} {finding.id}  {finding.where}{evidence}")


def _print_summary(diagnosis: Diagnosis, passed: int) -> None:
    total = len(diagnosis.findings)
    broken = sum(f.verdict in {"fail", "warn"} for f in diagnosis.findings)
    unknown = total - passed - broken
    word = "sound" if diagnosis.status == 0 else "broken" if broken else "unknown"
    click.secho(f"{word}: {passed} of {total} checks passed, {broken} broken, {unknown} unknown", bold=True)
