"""`apply cluster` and `diff cluster`: a stack on a living cluster."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from trackbed.cli.cluster_session import ClusterSession, open_cluster
from trackbed.cli.options import emit_json, fabric_option, output_option, refuse
from trackbed.cli.render_stack import load_stack, stack_names

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence

    from trackbed.cluster.rollout.applyset import ApplySet
    from trackbed.cluster.rollout.options import ObjectChange, RunOptions
    from trackbed.cluster.rollout.stack_run import StackRun
    from trackbed.cluster.stacks.install.steps import Step
    from trackbed.cluster.stacks.stack import Stack
    from trackbed.fabric.plan.plan import Plan

_Command = TypeVar("_Command", bound=Callable[..., Any])

CLUSTER = (
    click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster. Default: as kubectl does."),
    click.option("--context", help="Context of the kubeconfig. Default: its current one."),
)
"""Options that select a cluster."""

_REACH = (
    click.argument("name", metavar="STACK", shell_complete=stack_names),
    fabric_option,
    *CLUSTER,
    click.option(
        "--skip",
        multiple=True,
        metavar="RELEASE",
        help="Skip a chart that is installed already; `all` skips every chart.",
    ),
)


def _add_cluster_options(command: _Command) -> _Command:
    for option in reversed(_REACH):
        command = option(command)
    return command


class _Case(NamedTuple):
    """The cluster, options and steps of a command."""

    cluster: ClusterSession
    applyset: ApplySet
    options: RunOptions
    build_steps: Callable[[], Sequence[Step]]
    """Builds the steps at each call: their objects may be read once only."""


@click.command("cluster")
@_add_cluster_options
@click.option("--yes", is_flag=True, help="Do not ask for confirmation; required without a terminal.")
@click.option("--force", is_flag=True, help="Take over fields that other managers own.")
@click.option("--wait", "seconds", type=click.IntRange(0, 86400), help="Seconds for each gate. Default: its own time.")
@click.option("--undo", is_flag=True, help="Restore the state before the last run; namespaces and charts are kept.")
@click.option("--remove", is_flag=True, help="Delete the objects of this stack; namespaces and charts are kept.")
@output_option("text", "json")
def apply_cluster(
    name: str,
    fabric_file: str,
    output_format: str,
    *,
    yes: bool,
    force: bool,
    seconds: int | None,
    undo: bool,
    remove: bool,
    **reach: Any,  # noqa: ANN401 - the options of _REACH
) -> None:
    """Apply STACK to a cluster, stage by stage; its obsolete objects are removed, and no others.

    Shows the changes and asks for confirmation. Each stage ends at its gates; what a gate waits for, and why, is
    printed. A failed run can be repeated. Exits with 1 when a stage is stuck. The previous state is kept in the
    cluster; --undo restores it, also after an interrupted run.

    \b
    Examples:
      trackbed apply cluster native -f fabric.yaml
      trackbed apply cluster spiderpool -f fabric.yaml --skip all --yes
      trackbed apply cluster native -f fabric.yaml --undo
      trackbed apply cluster native -f fabric.yaml --remove
    """
    from trackbed.cluster.rollout import recorded_run

    if undo and remove:
        refuse("--undo restores the state before the last run, --remove deletes everything: use one of them")
    with _open_case(name, fabric_file, reach, force=force, seconds=seconds) as forward:
        case = _to_undo(forward) if undo else forward._replace(build_steps=tuple) if remove else forward
        changes = _show_preview(case, output_format)
        packed = None if undo or remove else _pack_before(case, changes)
        _confirm(changes, yes=yes)
        if remove:
            _run_stack(case, output_format, recorded_run.remove)
        elif undo:
            _run_stack(case, output_format, lambda run: recorded_run.roll_back(run, case.build_steps()))
        else:
            _run_stack(case, output_format, lambda run: recorded_run.apply_forward(run, case.build_steps(), packed))


def _to_undo(case: _Case) -> _Case:
    """Return the case that restores the state before the last run; the command ends where no record is kept."""
    from trackbed.cluster.rollout import history, recorded_run

    record = case.cluster.run(history.read_latest(case.cluster.client, case.applyset))
    if record is None or not record.packed:
        refuse(
            f"the cluster keeps no state from before the last run of {case.applyset.name}; "
            "apply the Fabric that it came from"
        )
    steps = recorded_run.build_undo_steps(record)
    return case._replace(options=recorded_run.to_undo_options(case.options), build_steps=lambda: steps)


def _preview(case: _Case) -> list[ObjectChange]:
    """Return the changes of a run, without objects that stay the same."""
    from trackbed.cluster.rollout.preview import preview

    changes = case.cluster.collect(preview(case.cluster.client, case.applyset, case.options, case.build_steps()))
    return [change for change in changes if change.outcome != "same"]


def _show_preview(case: _Case, output_format: str) -> list[ObjectChange]:
    changes = _preview(case)
    if output_format == "text":
        _show_changes(changes)
    return changes


def _pack_before(case: _Case, changes: Sequence[ObjectChange]) -> str | None:
    """Return the present state, packed; None if no object would change. Warn if it is too large to be kept."""
    from trackbed.cluster.rollout import history, recorded_run
    from trackbed.cluster.rollout.preview import BY_HELM

    if all(change.outcome == BY_HELM for change in changes):
        return None
    cluster = case.cluster
    last = cluster.run(history.read_latest(cluster.client, case.applyset))
    if last is not None and last.run == history.BEGUN:
        _print_progress("the last run was interrupted; --undo will restore the state before it")
        return ""
    packed = cluster.run(recorded_run.pack_before(cluster.client, case.applyset, case.options, case.build_steps()))
    if not history.is_storable(packed):
        _print_progress(
            f"the present state is {len(packed) / 1e6:.1f} MB packed, more than the cluster keeps: --undo will not "
            "restore it. Keep the Fabric that it came from, and apply that to go back"
        )
    return packed


def _run_stack(case: _Case, output_format: str, act: Callable[[StackRun], Coroutine[Any, Any, None]]) -> None:
    from trackbed.cluster.rollout.helm import HelmError
    from trackbed.cluster.rollout.options import StuckError
    from trackbed.cluster.rollout.stack_run import StackRun

    run = StackRun(case.cluster.client, case.applyset, case.options, _print_progress)
    try:
        case.cluster.run(act(run))
    except (StuckError, HelmError) as error:
        click.echo(f"trackbed: {error}", err=True)
        raise SystemExit(1) from error
    _summarize(run.changes, output_format)


@click.command("cluster")
@_add_cluster_options
@output_option("text", "json")
def diff_cluster(name: str, fabric_file: str, output_format: str, **reach: Any) -> None:  # noqa: ANN401 - options of _REACH
    """Show what `apply cluster` would change, without changing it. Exits with 0 without changes, with 1 otherwise.

    \b
    Examples:
      trackbed diff cluster native -f fabric.yaml
      trackbed diff cluster native -f fabric.yaml -o json
    """
    with _open_case(name, fabric_file, reach) as case:
        changes = _preview(case)
    if output_format == "json":
        emit_json({"changes": changes})
    else:
        _show_changes(changes)
    raise SystemExit(1 if changes else 0)


@contextmanager
def _open_case(
    name: str, fabric_file: str, reach: dict[str, Any], *, force: bool = False, seconds: int | None = None
) -> Iterator[_Case]:
    """Yield the cluster and the steps for it; an error with either ends the command."""
    from trackbed.cluster.rollout.applyset import build_applyset
    from trackbed.cluster.rollout.helm import Helm
    from trackbed.cluster.rollout.options import RunOptions

    stack, plan = load_stack(name, fabric_file)
    if not stack.has_objects:
        refuse(f"stack {name} puts nothing into a cluster; `trackbed render stack {name}` shows what it needs")
    helm = Helm(reach["kubeconfig"], reach["context"])
    options = RunOptions(f"trackbed-{name}", force, seconds, helm.install)
    with open_cluster(reach["kubeconfig"], reach["context"]) as cluster:
        yield _Case(cluster, build_applyset(plan, name), options, lambda: _build_steps(stack, plan, reach["skip"]))


def _build_steps(stack: Stack, plan: Plan, skip: Sequence[str]) -> list[Step]:
    """Return the steps without skipped charts; a chart whose version the site chooses ends the command."""
    from trackbed.cluster.stacks.install.steps import Install, steps

    selected: list[Step] = []
    for step in steps(stack, plan):
        if isinstance(step, Install):
            if {"all", step.release} & set(skip):
                continue
            if step.version is None or step.source.repository is None:
                refuse(
                    f"chart {step.release}: the site chooses its version; install it, then add --skip {step.release}"
                )
        selected.append(step)
    return selected


def _show_changes(changes: Sequence[ObjectChange]) -> None:
    for change in changes:
        click.echo(f"{change.outcome:9} {change.what}")
        for line in change.fields:
            click.echo(f"          {line}")
    if not changes:
        click.echo("the cluster is as wanted")


def _confirm(changes: Sequence[ObjectChange], *, yes: bool) -> None:
    if not changes or yes:
        return
    if not sys.stdin.isatty():
        refuse(
            "standard input is no terminal to confirm on; add --yes to apply, or use `trackbed diff cluster` to look"
        )
    if not click.confirm("Apply these changes?"):
        refuse("nothing was changed")


def _print_progress(line: str) -> None:
    click.echo(line, err=True)


def _summarize(changes: Sequence[ObjectChange], output_format: str) -> None:
    if output_format == "json":
        emit_json({"changes": changes})
        return
    counts = Counter(change.outcome for change in changes)
    click.echo(", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "nothing to do")
