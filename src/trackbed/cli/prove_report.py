"""The report of a proof: as a table, as JSON, as JUnit XML, and as a page."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import emit_json, refuse
from trackbed.cli.terminal import emit_document, escape_line, print_line, print_prose, print_styled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trackbed.fabric.plan.plan import Plan
    from trackbed.prove.baselines import ClassBaseline
    from trackbed.prove.findings import ProofVerdict
    from trackbed.prove.proof import Proof
    from trackbed.prove.report import ProofReport, RungReport

_VERDICTS: tuple[ProofVerdict, ...] = ("pass", "warn", "fail", "unknown", "not-tested")
_COLUMNS = ("rung", "over", "planned", *_VERDICTS, "median")
_COLOURS = {0: "green", 1: "red", 3: "cyan"}
_SHOWN = 20
"""Lines of a list in a table; -o json has all."""


def print_budget(plan: Plan, mode: str, rungs: Sequence[str], output_format: str, *, in_pods: bool) -> None:
    """Print what a proof costs: time, rounds and tests by rung."""
    from trackbed.cluster.proof.deadline import compute_start_seconds
    from trackbed.fabric.documents import to_camel, to_document
    from trackbed.prove.budget import START_SECONDS, compute_ladder_budget

    start_seconds = compute_start_seconds(len(plan.nodes)) if in_pods else START_SECONDS
    budget = compute_ladder_budget(plan, mode, rungs, start_seconds)
    if output_format == "json":
        emit_json(to_document(budget, to_camel))
        return
    from trackbed.cli.tables import print_table

    rows = [
        (cost.rung, cost.transport.upper(), str(cost.tests), str(cost.rounds), f"{cost.seconds:.0f}")
        for cost in budget.rungs
    ]
    print_table(("rung", "over", "tests", "rounds", "seconds"), rows)
    click.echo(f"{mode} of {budget.nodes} nodes with {budget.ports} ports: {budget.seconds:.0f} s")
    click.echo(f"suspects add {budget.most_repeats} rounds to a rung at most: {budget.most_seconds:.0f} s in all")
    if budget.coverage is not None:
        click.echo(f"each link between leaf and spine is hit with a probability of {budget.coverage:.2%} at least")


def read_baselines(path: Path) -> list[ClassBaseline]:
    """Return the baselines of an earlier proof. Exit with status 2 if the file is none."""
    from trackbed.fabric.documents import DocumentError, parse_document, to_camel
    from trackbed.prove.baselines import ClassBaseline

    try:
        document = json.loads(path.read_bytes())
        return parse_document(document["baselines"], list[ClassBaseline], to_camel)
    except (OSError, ValueError, RecursionError, KeyError, TypeError, DocumentError) as error:
        refuse(f"{path}: it is no proof of `trackbed prove -o json` ({error}); name another file with --against")


def check_page(page: Path | None) -> None:
    """Exit with status 2 if a page cannot be written, before hours of measuring."""
    if page and not os.access(page if page.exists() else page.absolute().parent, os.W_OK):
        refuse(f"cannot write {page.absolute()}; name a place for the page with --report")


def write_page(page: Path, proof: Proof, report: ProofReport, fabric: str, how: str) -> int:
    """Write the page of a proof that has just ended; return 0, or 2 if the file cannot be written."""
    from trackbed.prove.page.html import render_html
    from trackbed.prove.page.page import build_page

    ended = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    subtitle = f"{len(proof.topology.nodes)} nodes, {len(proof.ends)} ports, {how}, {ended}"
    content = render_html(build_page(proof, report, f"Proof of {fabric}", subtitle))
    try:
        page.write_text(content, encoding="utf-8", errors="replace")
    except OSError as error:
        print_line(f"cannot write {page.absolute()}: {error.strerror}; what is printed is the whole proof", err=True)
        return 2
    click.echo(f"report: {page.absolute()}", err=True)
    return 0


def print_report(proof: Proof, report: ProofReport, output_format: str, events: Sequence[str]) -> None:
    """Print the report of a proof as a table, as JSON with the lines of progress, or as JUnit XML."""
    if output_format == "json":
        from trackbed.fabric.documents import to_camel, to_document

        emit_json(to_document(report, to_camel) | {"events": events})
    elif output_format == "junit":
        from trackbed.prove.junit import render_proof

        emit_document(render_proof(proof, report))
    else:
        _print_table(report)


def _print_table(report: ProofReport) -> None:
    from trackbed.cli.tables import print_table
    from trackbed.prove.report import list_details

    if report.culprits:
        print_styled(click.style("Look at this first:", bold=True))
    for culprit in report.culprits[:_SHOWN]:
        where = click.style(escape_line(culprit.where), fg="red", bold=True)
        print_styled(f"  {where}  ({culprit.rung}, {culprit.transport.upper()})")
        print_prose(f"      saw: {escape_line(culprit.evidence)}\n      look: {escape_line(culprit.look)}")
    _print_hidden(len(report.culprits))
    below, *others = list_details(report)
    _print_list(*below)
    print_table(_COLUMNS, [_build_row(rung) for rung in report.rungs])
    for title, lines in others:
        _print_list(title, lines)
    print_styled(click.style(escape_line(report.summary), fg=_COLOURS[report.status], bold=True))


def _build_row(rung: RungReport) -> tuple[str, ...]:
    counts = (str(rung.verdicts[verdict]) for verdict in _VERDICTS)
    median = "-" if rung.median is None else f"{rung.median:.3g} {rung.unit}".strip()
    return (rung.rung, rung.transport.upper(), str(rung.planned), *counts, median)


def _print_list(title: str, lines: Sequence[str]) -> None:
    if lines:
        print_styled(click.style(f"{title}:", bold=True))
    for line in lines[:_SHOWN]:
        print_prose(f"  {escape_line(line)}")
    _print_hidden(len(lines))


def _print_hidden(count: int) -> None:
    """Say how many entries are not shown."""
    if count > _SHOWN:
        click.echo(f"  and {count - _SHOWN} more; -o json has all")
