"""`trackbed doctor` on several nodes: what they show together."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from trackbed.cli.options import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from trackbed.doctor.across.excerpt import NodeExcerpt
    from trackbed.doctor.diagnosis import Diagnosis
    from trackbed.fabric.plan.plan import NodePlan, Plan
    from trackbed.fleet.outcome import Outcome

_T = TypeVar("_T")


def diagnose_captures(captures: Sequence[Path], plan: Plan) -> Diagnosis:
    """Compare the nodes of several archives. Exit with status 2 if one is of no node of the plan."""
    from trackbed.doctor.captured import ForeignCaptureError
    from trackbed.doctor.captured_site import WorkerKilledError, excerpt_captures

    if len(captures) == 1:
        refuse("one capture has nothing to be compared with; unpack it and name its folder with --root, or name more")
    nodes = {node.name: node for node in plan.nodes}
    try:
        results = list(report_progress(excerpt_captures(captures, nodes), len(captures), monotonic))
    except WorkerKilledError as error:
        refuse(f"{error}; name fewer captures at once")
    foreign = [str(result) for result in results if isinstance(result, ForeignCaptureError)]
    if foreign:
        refuse("\n".join(foreign))
    return _diagnose_excerpts([result for result in results if not isinstance(result, ForeignCaptureError)], nodes)


def report_progress(results: Iterable[_T], total: int, clock: Callable[[], float]) -> Iterator[_T]:
    """Yield the results; print how many there are after 1, 2, 4, 8... seconds. `clock` returns seconds."""
    start, due = clock(), 1.0
    for count, result in enumerate(results, start=1):
        if clock() - start >= due:
            click.echo(f"read {count} of {total} captures", err=True)
            due *= 2
        yield result


def diagnose_hosts(plan: Plan, reach: dict[str, Any]) -> Diagnosis:
    """Compare hosts that are read over SSH; a host that does not answer is unknown."""
    from trackbed.cli.fleet import build_ssh_options, select_names
    from trackbed.doctor.captured import WANTED
    from trackbed.fleet.run import run_tasks
    from trackbed.fleet.task import HostTask

    nodes = {node.name: node for node in plan.nodes}
    names = select_names(plan, reach["nodes"])
    excerpts: dict[str, NodeExcerpt] = {}

    def keep_excerpt(outcome: Outcome) -> None:
        excerpts[outcome.node] = _excerpt_outcome(outcome, nodes[outcome.node])

    tasks = (HostTask("capture", name, None, {}, "none", reach["seconds"], WANTED) for name in names)
    run_tasks(tasks, build_ssh_options(reach), keep_excerpt)
    return _diagnose_excerpts([excerpts[name] for name in names], nodes)


def _excerpt_outcome(outcome: Outcome, node: NodePlan) -> NodeExcerpt:
    from trackbed.doctor.across.excerpt import NodeExcerpt
    from trackbed.doctor.captured import excerpt_snapshot
    from trackbed.fabric.documents import DocumentError
    from trackbed.host.snapshot.wire import parse_snapshot

    if "snapshot" not in outcome.answer:
        return NodeExcerpt(node.name, outcome.message)
    try:
        return excerpt_snapshot(node, parse_snapshot(outcome.answer["snapshot"]))
    except DocumentError as error:
        return NodeExcerpt(node.name, f"its answer cannot be read: {error}")


def _diagnose_excerpts(excerpts: Sequence[NodeExcerpt], nodes: dict[str, NodePlan]) -> Diagnosis:
    from trackbed.doctor.across.judgement import judge_nodes
    from trackbed.doctor.across.sources import IDS
    from trackbed.doctor.diagnosis import Diagnosis, select_finding_to_fix

    findings = judge_nodes(excerpts, nodes)
    incomplete = next((finding for finding in findings if finding.id in IDS), None)
    return Diagnosis(findings, select_finding_to_fix(findings) or incomplete)


def print_site(diagnosis: Diagnosis, output_format: str, *, everything: bool) -> NoReturn:
    """Print what nodes show together, and how many checks could be made; exit with the status of the diagnosis."""
    from trackbed.cli.findings import print_diagnosis
    from trackbed.doctor.across.judgement import list_check_ids

    print_diagnosis(diagnosis, output_format, everything=everything)
    made, others = list_check_ids(diagnosis.findings)
    total = len(made) + len(others)
    click.echo(f"checks between nodes: {len(made)} of {total} were made of every node", err=True)
    if others:
        click.echo(f"not made, or not of every node: {', '.join(others)}", err=True)
    raise SystemExit(diagnosis.exit_status)
