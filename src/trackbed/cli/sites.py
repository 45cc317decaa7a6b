"""`trackbed doctor` on several nodes: what each shows, and what they show together."""

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
    from trackbed.doctor.readings import JudgedNode
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


def judge_hosts(plan: Plan, reach: dict[str, Any], *, keeps_passes: bool) -> list[JudgedNode]:
    """Read hosts over SSH and judge each as its answer arrives; a host that does not answer is unknown.

    `reach` has the options of reach_options, and `lldp`, the seconds to listen.
    """
    from trackbed.cli.fleet import build_ssh_options, select_names
    from trackbed.doctor.checks import READS
    from trackbed.fleet.run import run_tasks
    from trackbed.fleet.task import build_inspection

    nodes = {node.name: node for node in plan.nodes}
    names, seconds = select_names(plan, reach["nodes"]), reach["lldp"]
    judged: dict[str, JudgedNode] = {}

    def judge_outcome(outcome: Outcome) -> None:
        judged[outcome.node] = _judge_outcome(outcome, nodes[outcome.node], seconds, keeps_passes=keeps_passes)

    tasks = (build_inspection(nodes[name], READS, seconds, reach["seconds"]) for name in names)
    run_tasks(tasks, build_ssh_options(reach), judge_outcome)
    return [judged[name] for name in names]


def _judge_outcome(outcome: Outcome, node: NodePlan, lldp_seconds: float, *, keeps_passes: bool) -> JudgedNode:
    from trackbed.doctor.across.excerpt import NodeExcerpt
    from trackbed.doctor.readings import JudgedNode, judge_reading
    from trackbed.fabric.documents import DocumentError
    from trackbed.fleet.outcome import explain_unread
    from trackbed.host.snapshot.reading import parse_reading

    if "reading" not in outcome.answer:
        return JudgedNode(NodeExcerpt(node.name, explain_unread(outcome)))
    try:
        reading = parse_reading(outcome.answer["reading"])
    except DocumentError as error:
        return JudgedNode(NodeExcerpt(node.name, f"its answer cannot be understood: {str(error)[:200]}"))
    return judge_reading(node, reading, lldp_seconds, keeps_passes=keeps_passes)


def _diagnose_excerpts(excerpts: Sequence[NodeExcerpt], nodes: dict[str, NodePlan]) -> Diagnosis:
    from trackbed.doctor.across.judgement import judge_nodes
    from trackbed.doctor.across.sources import IDS
    from trackbed.doctor.diagnosis import Diagnosis, select_finding_to_fix

    findings = judge_nodes(excerpts, nodes)
    incomplete = next((finding for finding in findings if finding.id in IDS), None)
    return Diagnosis(findings, select_finding_to_fix(findings) or incomplete)


def print_judged_site(judged: Sequence[JudgedNode], plan: Plan, output_format: str, *, everything: bool) -> NoReturn:
    """Print what nodes show, each and together, and which checks were made; exit with the status of the diagnosis."""
    from trackbed.doctor.readings import diagnose_judged_nodes, list_own_check_ids

    diagnosis = diagnose_judged_nodes(judged, {node.name: node for node in plan.nodes})
    read = [node for node in judged if not node.excerpt.failure]
    checks = list_own_check_ids(read)
    print_site(diagnosis, output_format, f"{len(read)} of {len(judged)} nodes", checks, everything=everything)


def print_site(
    diagnosis: Diagnosis,
    output_format: str,
    read: str = "",
    checks: tuple[list[str], list[str]] = ([], []),
    *,
    everything: bool,
) -> NoReturn:
    """Print a diagnosis and how many checks could be made, of each node and between them; exit with its status."""
    from trackbed.cli.findings import print_diagnosis
    from trackbed.doctor.across.judgement import list_check_ids

    print_diagnosis(diagnosis, output_format, everything=everything)
    if read:
        click.echo(f"nodes read: {read}", err=True)
        _print_check_counts("checks of each node", *checks)
    _print_check_counts("checks between nodes", *list_check_ids(diagnosis.findings))
    raise SystemExit(diagnosis.exit_status)


def _print_check_counts(label: str, made: Sequence[str], others: Sequence[str]) -> None:
    """Print how many checks were made of every node; `others` were not, or not of every node."""
    click.echo(f"{label}: {len(made)} of {len(made) + len(others)} were made of every node", err=True)
    if others:
        click.echo(f"not made, or not of every node: {', '.join(others)}", err=True)
