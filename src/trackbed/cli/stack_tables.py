"""Stacks as tables and lists: all, one, and their comparison for a Fabric."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import click

from trackbed.cli.tables import print_table
from trackbed.cli.terminal import print_line, print_prose, print_styled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trackbed.cluster.stacks.comparison import ComparedStack, Figures
    from trackbed.cluster.stacks.recommendation import Recommendation
    from trackbed.cluster.stacks.stack import Stack
    from trackbed.fabric.plan.plan import Plan

COLUMNS = ("stack", "pod gets", "pods", "Kubernetes", "writes", "tried")
WIDE_COLUMNS = (*COLUMNS, "maturity", "kernel", "for", "operators", "installs")
LEGEND = (
    "pods: with all rails, on a node, by the plan. writes: to the API server for a starting pod, + for at least, - if "
    "unknown. tried: ran = pods ran in the lab, accepted = a real API server accepts its objects, rendered = text."
)


def print_stacks(stacks: Iterable[Stack]) -> None:
    """Print all stacks, each in a line."""
    print_table(("stack", "what attaches what"), [(stack.name, stack.title) for stack in stacks])
    click.echo("\nMore: trackbed stacks NAME; which to take for a Fabric: trackbed stacks -f fabric.yaml")


def print_candidates(candidates: Iterable[ComparedStack], *, wide: bool = False) -> None:
    """Print the stacks that fit as a table."""
    rows = [
        (*_build_row(candidate, figures), *(_build_wide_cells(candidate, figures) if wide else ()))
        for candidate in candidates
        if (figures := candidate.figures)
    ]
    if rows:
        print_table(WIDE_COLUMNS if wide else COLUMNS, rows)
        print_prose(LEGEND, 0)


def _build_row(candidate: ComparedStack, figures: Figures) -> tuple[str, ...]:
    return (
        candidate.name,
        figures.pod_gets,
        figures.pods,
        figures.kubernetes,
        figures.writes,
        candidate.evidence,
    )


def _build_wide_cells(candidate: ComparedStack, figures: Figures) -> tuple[str, ...]:
    return (
        candidate.maturity,
        figures.kernel or "-",
        candidate.only_for or "any",
        ", ".join(figures.operators) or "-",
        ", ".join(figures.installs) or "-",
    )


def print_recommendation(advice: Recommendation | None, fabric_file: str) -> None:
    """Print which stack to take, why, what speaks against it, and when to take another."""
    if advice is None:
        click.echo("\nNo stack for any cluster fits this Fabric; the reasons below say what to write instead.")
        return
    print_styled("\n" + click.style(f"Recommended: {advice.name}", bold=True))
    _print_list("", advice.reasons)
    _print_list("Against it:", advice.cautions)
    _print_list("Instead of it:", [f"{name} {case}" for name, case in advice.alternatives])
    command = f"trackbed stacks {advice.name} -f {quote(fabric_file)}"
    print_line(f"To take it, write kubernetes.stack {advice.name}. More: {command}")


def print_refusals(candidates: Iterable[ComparedStack]) -> None:
    """Print all reasons against the stacks that do not fit."""
    refused = [candidate for candidate in candidates if candidate.refusals]
    if refused:
        click.echo("\nDo not fit:")
    for candidate in refused:
        click.echo(f"  {candidate.name}")
        for reason in candidate.refusals:
            print_prose(f"    - {reason.removeprefix('error: ')}")


def print_stack(stack: Stack, plan: Plan | None, fabric_file: str) -> None:
    """Print one stack: its requirements and limits, and its figures for a plan."""
    from trackbed.cluster.stacks.comparison import EVIDENCE, MATURITY, compare_stack, find_evidence

    print_styled(click.style(stack.name, bold=True))
    print_prose(stack.title, 0)
    click.echo()
    print_prose(
        f"Maturity: {stack.traits.maturity} ({MATURITY[stack.traits.maturity]}): {stack.traits.maturity_reason}", 0
    )
    evidence = find_evidence(stack)
    print_prose(f"Tried: {evidence}: {stack.traits.ran or EVIDENCE[evidence]}", 0)
    _print_list("Needs:", stack.needs)
    _print_list("Cannot:", stack.cannot)
    if plan is not None:
        candidate = compare_stack(stack, plan)
        _print_list("With this Fabric:", list_figures(candidate.figures) if candidate.figures else ())
        _print_list("Does not fit this Fabric:", candidate.refusals)
    click.echo(f"\nRender it: trackbed render stack {stack.name} -f {quote(fabric_file)} --to DIR")


def list_figures(figures: Figures) -> list[str]:
    """Return the figures of a stack, each as a line."""
    return [
        f"a pod gets of a rail: {figures.pod_gets}; {figures.isolation}",
        f"pods with all rails on a node: {figures.pods}",
        f"Kubernetes: {figures.kubernetes}",
        f"kernel: {figures.kernel or 'any'}",
        f"charts that are installed: {', '.join(figures.installs) or 'none'}",
        f"the cluster must have: {', '.join(figures.operators) or 'nothing else'}",
        f"feature gates: {', '.join(figures.feature_gates) or 'none'}",
        f"API writes for a starting pod: {figures.writes} ({figures.writes_source})",
    ]


def _print_list(label: str, lines: Sequence[str]) -> None:
    if lines and label:
        click.echo(f"\n{label}")
    for line in lines:
        print_prose(f"  - {line}")
