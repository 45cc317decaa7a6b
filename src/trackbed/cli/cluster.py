"""`apply cluster` and `diff cluster`: a stack on a running cluster."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from trackbed.cli.cluster_session import ClusterSession, open_cluster
from trackbed.cli.options import (
    cluster_options,
    combine_options,
    emit_json,
    fabric_option,
    fail,
    output_option,
    refuse,
    suggest_name,
)
from trackbed.cli.render_stack import complete_stack_name, load_stack
from trackbed.cli.terminal import print_line

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from trackbed.cluster.rollout.applyset import ApplySet
    from trackbed.cluster.rollout.options import ObjectChange, RunOptions
    from trackbed.cluster.rollout.stack_run import StackRun
    from trackbed.cluster.stacks.install.steps import Step
    from trackbed.cluster.stacks.stack import Stack
    from trackbed.fabric.plan.plan import Plan

_stack_options = combine_options(
    click.argument("name", metavar="STACK", shell_complete=complete_stack_name),
    fabric_option,
    cluster_options,
    click.option(
        "--skip",
        multiple=True,
        metavar="RELEASE",
        help="Skip a chart that is installed already; `all` skips every chart.",
    ),
)


class _StackTarget(NamedTuple):
    """The cluster, ApplySet, options and steps of a command."""

    cluster: ClusterSession
    applyset: ApplySet
    options: RunOptions
    build_steps: Callable[[], Sequence[Step]]
    """Builds the steps anew at each call, because their objects can be iterated only once."""
    list_kinds: Callable[[], list[str]]
    """Renders the stack and returns its kinds in the order of its stages."""


@click.command("cluster")
@_stack_options
@click.option("--yes", is_flag=True, help="Do not ask for confirmation; required without a terminal.")
@click.option("--force", is_flag=True, help="Take over fields of other managers; delete others' pools, too.")
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
    **reach: Any,  # noqa: ANN401 - the options of _stack_options
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
    with _open_target(name, fabric_file, reach, force=force, seconds=seconds) as forward:
        case = _to_undo_target(forward) if undo else forward._replace(build_steps=tuple) if remove else forward
        changes = _preview_and_print(case, output_format)
        _check_membership(changes)
        if not undo and not remove:
            _check_helm(changes)
        packed = None if undo or remove else _pack_present_state(case, changes)
        _confirm_changes(changes, yes=yes)
        if remove:
            _run_stack(case, output_format, recorded_run.remove_stack, case.list_kinds())
        elif undo:
            _run_stack(
                case, output_format, lambda run: recorded_run.roll_back(run, case.build_steps()), case.list_kinds()
            )
        else:
            _run_stack(case, output_format, lambda run: recorded_run.apply_forward(run, case.build_steps(), packed))


def _to_undo_target(case: _StackTarget) -> _StackTarget:
    """Return the target with steps that restore the state before the last run. Exit with status 2 without a record."""
    from trackbed.cluster.rollout import history, recorded_run

    record = case.cluster.run(history.read_latest_record(case.cluster.client, case.applyset))
    if record is None or not record.packed:
        refuse(
            f"the cluster keeps no state from before the last run of {case.applyset.name}; "
            "apply the Fabric that it came from"
        )
    steps = recorded_run.build_undo_steps(record)
    return case._replace(options=recorded_run.to_undo_options(case.options), build_steps=lambda: steps)


def _list_object_changes(case: _StackTarget) -> list[ObjectChange]:
    """Return what a run would change, without unchanged objects."""
    from trackbed.cluster.rollout.preview import iter_preview

    changes = case.cluster.collect(iter_preview(case.cluster.client, case.applyset, case.options, case.build_steps()))
    return [change for change in changes if change.outcome != "same"]


def _preview_and_print(case: _StackTarget, output_format: str) -> list[ObjectChange]:
    changes = _list_object_changes(case)
    if output_format == "text":
        _print_changes(changes)
    return changes


def _check_membership(changes: Sequence[ObjectChange]) -> None:
    """Exit with status 2 before anything is asked or changed, if an object belongs to another ApplySet."""
    from trackbed.cluster.rollout.membership import build_membership_error
    from trackbed.cluster.rollout.options import REFUSED

    if lines := [line for change in changes if change.outcome == REFUSED for line in change.fields]:
        refuse(build_membership_error("nothing was changed", lines))


def _check_helm(changes: Sequence[ObjectChange]) -> None:
    """Exit with status 2 before anything is asked or changed, if a chart is to be installed and helm is missing."""
    from trackbed.cluster.rollout.preview import BY_HELM

    charts = [change.what for change in changes if change.outcome == BY_HELM]
    if charts and shutil.which("helm") is None:
        name = charts[0].split()[1]
        refuse(f"{charts[0]} needs the program helm, which is not installed here; install it, or say --skip {name}")


def _pack_present_state(case: _StackTarget, changes: Sequence[ObjectChange]) -> str | None:
    """Return the present state, compressed, or None if no object would change.

    It is "" after an interrupted run, whose record is kept. Print a warning if it is too large to be stored.
    """
    from trackbed.cluster.rollout import history, recorded_run
    from trackbed.cluster.rollout.preview import BY_HELM

    if all(change.outcome == BY_HELM for change in changes):
        return None
    cluster = case.cluster
    last = cluster.run(history.read_latest_record(cluster.client, case.applyset))
    if last is not None and last.state == history.BEGUN:
        _print_progress("the last run was interrupted; --undo will restore the state before it")
        return ""
    packed = cluster.run(
        recorded_run.pack_current_state(cluster.client, case.applyset, case.options, case.build_steps())
    )
    if not history.is_record_storable(packed):
        _print_progress(
            f"the present state is {len(packed) / 1e6:.1f} MB packed, more than the cluster keeps: --undo will not "
            "restore it. Keep the Fabric that it came from, and apply that to go back"
        )
    return packed


def _run_stack(
    case: _StackTarget,
    output_format: str,
    operation: Callable[[StackRun], Coroutine[Any, Any, None]],
    stage_kinds: Sequence[str] = (),
) -> None:
    from trackbed.cluster.rollout.helm import HelmError
    from trackbed.cluster.rollout.options import StuckError
    from trackbed.cluster.rollout.stack_run import StackRun

    run = StackRun(case.cluster.client, case.applyset, case.options, _print_progress, stage_kinds=list(stage_kinds))
    try:
        case.cluster.run(operation(run))
    except (StuckError, HelmError) as error:
        fail(error)
    _print_summary(run.changes, output_format)


@click.command("cluster")
@_stack_options
@output_option("text", "json")
def diff_cluster(name: str, fabric_file: str, output_format: str, **reach: Any) -> None:  # noqa: ANN401 - as above
    """Show what `apply cluster` would change, without changing it. Exits with 0 without changes, with 1 otherwise.

    \b
    Examples:
      trackbed diff cluster native -f fabric.yaml
      trackbed diff cluster native -f fabric.yaml -o json
    """
    with _open_target(name, fabric_file, reach) as case:
        changes = _list_object_changes(case)
    if output_format == "json":
        emit_json({"changes": changes})
    else:
        _print_changes(changes)
    raise SystemExit(1 if changes else 0)


@contextmanager
def _open_target(
    name: str, fabric_file: str, reach: dict[str, Any], *, force: bool = False, seconds: int | None = None
) -> Iterator[_StackTarget]:
    """Yield the cluster and the steps for it. Exit with status 2 or 3 if either is unusable."""
    from trackbed.cluster.rollout.applyset import build_applyset
    from trackbed.cluster.rollout.helm import Helm
    from trackbed.cluster.rollout.options import RunOptions
    from trackbed.cluster.rollout.recorded_run import list_kinds

    stack, plan = load_stack(name, fabric_file)
    if not stack.has_objects:
        refuse(f"stack {name} puts nothing into a cluster; `trackbed render stack {name}` shows what it needs")
    _check_skipped_names(reach["skip"])
    helm = Helm(reach["kubeconfig"], reach["context"])
    options = RunOptions(f"trackbed-{name}", force, seconds, helm.install)
    with open_cluster(reach["kubeconfig"], reach["context"]) as cluster:
        yield _StackTarget(
            cluster,
            build_applyset(plan, name),
            options,
            lambda: _build_steps(stack, plan, reach["skip"]),
            lambda: list_kinds(_build_steps(stack, plan, ("all",))),
        )


def _check_skipped_names(skip: Sequence[str]) -> None:
    """Exit with status 2 if no stack has a chart of that name: it would be installed, against what is asked for."""
    from trackbed.cluster.stacks.install.steps import list_release_names

    known = ["all", *list_release_names()]
    for name in skip:
        if name not in known:
            refuse(f"--skip: no stack installs a chart {name!r}{suggest_name(name, known)}; `diff cluster` lists them")


def _build_steps(stack: Stack, plan: Plan, skip: Sequence[str]) -> list[Step]:
    """Return the steps without skipped charts. Exit with status 2 if the site chooses a remaining one's version."""
    from trackbed.cluster.stacks.install.steps import InstallChart, build_steps

    selected: list[Step] = []
    for step in build_steps(stack, plan):
        if isinstance(step, InstallChart):
            if {"all", step.release_name} & set(skip):
                continue
            if step.version is None or step.source.repository is None:
                refuse(
                    f"chart {step.release_name}: the site chooses its version; install it, "
                    f"then add --skip {step.release_name}"
                )
        selected.append(step)
    return selected


def _print_changes(changes: Sequence[ObjectChange]) -> None:
    for change in changes:
        outcome, comma, condition = change.outcome.partition(",")
        print_line(f"{outcome:9} {change.what}{comma}{condition}")
        for line in change.fields:
            print_line(f"          {line}")
    if not changes:
        click.echo("the cluster is as wanted")


def _confirm_changes(changes: Sequence[ObjectChange], *, yes: bool) -> None:
    if not changes or yes:
        return
    if not sys.stdin.isatty():
        refuse(
            "standard input is no terminal to confirm on; add --yes to apply, or use `trackbed diff cluster` to look"
        )
    if not click.confirm("Apply these changes?"):
        refuse("nothing was changed")


def _print_progress(line: str) -> None:
    print_line(line, err=True)


def _print_summary(changes: Sequence[ObjectChange], output_format: str) -> None:
    if output_format == "json":
        emit_json({"changes": changes})
        return
    counts = Counter(change.outcome for change in changes)
    click.echo(", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "nothing to do")
