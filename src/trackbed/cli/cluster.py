"""`apply cluster` and `diff cluster`: a stack on a living cluster."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from trackbed.cli.options import emit_json, fabric_option, output_option, refuse
from trackbed.cli.render_stack import planned_stack, stack_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trackbed.cluster.api.client import Client
    from trackbed.cluster.rollout.applyset import ApplySet
    from trackbed.cluster.rollout.rollout import Change, Manner, Rollout
    from trackbed.cluster.stacks.install.steps import Step
    from trackbed.cluster.stacks.stack import Stack
    from trackbed.fabric.plan.plan import Plan

_Command = TypeVar("_Command", bound=Callable[..., Any])

CLUSTER = (
    click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster. Default: as kubectl does."),
    click.option("--context", help="Context of the kubeconfig. Default: its current one."),
)
"""How a cluster is reached."""

_REACH = (
    click.argument("name", metavar="STACK", shell_complete=stack_names),
    fabric_option,
    *CLUSTER,
    click.option("--skip", multiple=True, metavar="RELEASE", help="Leave out a chart: it is there. `all`: every one."),
)


def _reach(command: _Command) -> _Command:
    for option in reversed(_REACH):
        command = option(command)
    return command


class _Case(NamedTuple):
    """What one command is about."""

    client: Client
    of: ApplySet
    manner: Manner
    steps: Callable[[], Sequence[Step]]
    """Made anew at each call: objects may be read once only."""


@click.command("cluster")
@_reach
@click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can answer.")
@click.option("--force", is_flag=True, help="Take over fields that others own.")
@click.option("--wait", "seconds", type=click.IntRange(0, 86400), help="Seconds for each gate. Default: its own time.")
@click.option("--undo", "back", is_flag=True, help="Go back to before the last run; namespaces and charts stay.")
@click.option("--remove", is_flag=True, help="Delete all that this stack put there; namespaces and charts stay.")
@output_option("text", "json")
def apply_cluster(
    name: str,
    fabric_file: str,
    form: str,
    *,
    yes: bool,
    force: bool,
    seconds: int | None,
    back: bool,
    remove: bool,
    **reach: Any,  # noqa: ANN401 - the options of _REACH
) -> None:
    """Put STACK on a cluster, stage by stage; what it no longer wants is removed, and nothing else.

    Shows what would change and asks. Each stage ends at its gates; what is waited for, and what keeps it, is told. It
    can be run again after any failure. Exits with 1 when a stage is stuck. What was there before is kept in the
    cluster; --undo goes back to it, also from a run that broke off.

    \b
    Examples:
      trackbed apply cluster native -f fabric.yaml
      trackbed apply cluster spiderpool -f fabric.yaml --skip all --yes
      trackbed apply cluster native -f fabric.yaml --undo
      trackbed apply cluster native -f fabric.yaml --remove
    """
    from trackbed.cluster.rollout import runs

    if back and remove:
        refuse("--undo goes back to before the last run, --remove deletes everything: say one of them")
    with _case(name, fabric_file, reach, force=force, seconds=seconds) as found:
        case = _going_back(found) if back else found._replace(steps=tuple) if remove else found
        changes = _previewed(case, form)
        packed = None if back or remove else _before(case, changes)
        _agree(changes, yes=yes)
        if remove:
            _carry_out(case, form, runs.away)
        elif back:
            _carry_out(case, form, lambda work: runs.back(work, case.steps()))
        else:
            _carry_out(case, form, lambda work: runs.there(work, case.steps(), packed))


def _going_back(case: _Case) -> _Case:
    """The same cluster, with what was there before the last run for a stack; where none is kept the command ends."""
    from trackbed.cluster.rollout import history, runs

    record = history.latest(case.client, case.of)
    if record is None or not record.packed:
        refuse(
            f"the cluster keeps nothing of what was there before the last run of {case.of.name}; "
            "apply the Fabric that it came from"
        )
    steps = runs.steps_back(record)
    return case._replace(manner=runs.manner_back(case.manner), steps=lambda: steps)


def _previewed(case: _Case, form: str) -> list[Change]:
    from trackbed.cluster.rollout.preview import preview

    changes = [one for one in preview(case.client, case.of, case.manner, case.steps()) if one.outcome != "same"]
    if form == "text":
        _show(changes)
    return changes


def _before(case: _Case, changes: Sequence[Change]) -> str | None:
    """What is there now, packed; None where no object would change. That it cannot be kept is told before all else."""
    from trackbed.cluster.rollout import history, runs
    from trackbed.cluster.rollout.preview import BY_HELM

    if all(one.outcome == BY_HELM for one in changes):
        return None
    last = history.latest(case.client, case.of)
    if last is not None and last.run == history.BEGUN:
        _tell("the last run broke off; --undo will go back to before that one")
        return ""
    packed = runs.before(case.client, case.of, case.manner, case.steps())
    if not history.fits(packed):
        _tell(
            f"what is there now is {len(packed) / 1e6:.1f} MB packed, more than the cluster keeps: --undo will not "
            "bring it back. Keep the Fabric that it came from, and apply that to go back"
        )
    return packed


def _carry_out(case: _Case, form: str, act: Callable[[Rollout], None]) -> None:
    from trackbed.cluster.rollout.helm import HelmError
    from trackbed.cluster.rollout.rollout import Rollout, StuckError

    work = Rollout(case.client, case.of, case.manner, _tell)
    try:
        act(work)
    except (StuckError, HelmError) as error:
        click.echo(f"trackbed: {error}", err=True)
        raise SystemExit(1) from error
    _report(work.changes, form)


@click.command("cluster")
@_reach
@output_option("text", "json")
def diff_cluster(name: str, fabric_file: str, form: str, **reach: Any) -> None:  # noqa: ANN401 - options of _REACH
    """Show what `apply cluster` would change; nothing is. Exits with 0 when there is nothing, with 1 when there is.

    \b
    Examples:
      trackbed diff cluster native -f fabric.yaml
      trackbed diff cluster native -f fabric.yaml -o json
    """
    from trackbed.cluster.rollout.preview import preview

    with _case(name, fabric_file, reach) as case:
        found = list(preview(case.client, case.of, case.manner, case.steps()))
    differs = [one for one in found if one.outcome != "same"]
    if form == "json":
        emit_json({"changes": differs})
    else:
        _show(differs)
    raise SystemExit(1 if differs else 0)


@contextmanager
def _case(
    name: str, fabric_file: str, reach: dict[str, Any], *, force: bool = False, seconds: int | None = None
) -> Iterator[_Case]:
    """The cluster and what is wanted on it; what goes wrong with either ends the command."""
    from trackbed.cluster.rollout.helm import Helm
    from trackbed.cluster.rollout.rollout import Manner

    stack, plan = planned_stack(name, fabric_file)
    if not stack.has_objects:
        refuse(f"stack {name} puts nothing into a cluster; `trackbed render stack {name}` shows what it needs")
    helm = Helm(reach["kubeconfig"], reach["context"])
    manner = Manner(f"trackbed-{name}", force, seconds, helm.install)
    with connected(reach["kubeconfig"], reach["context"]) as client:
        yield _Case(client, applyset_of(plan, name), manner, lambda: _steps(stack, plan, reach["skip"]))


def applyset_of(plan: Plan, name: str) -> ApplySet:
    """The set of a stack's objects for a plan's fabric."""
    from trackbed.cluster.rollout.applyset import of_stack

    return of_stack(plan, name)


@contextmanager
def connected(kubeconfig: str | None, context: str | None) -> Iterator[Client]:
    """The cluster; what goes wrong with it ends the command: 2 where no kubeconfig can be used, 3 without an answer."""
    from trackbed.cluster.api.client import connect
    from trackbed.cluster.api.errors import ConfigurationError, KubeError

    try:
        with connect(kubeconfig, context) as client:
            yield client
    except ConfigurationError as error:
        refuse(str(error))
    except KubeError as error:
        click.echo(f"trackbed: {error}", err=True)
        raise SystemExit(3) from error


def _steps(stack: Stack, plan: Plan, skip: Sequence[str]) -> list[Step]:
    """The steps without the charts that are there; what only the site can say of a chart ends the command."""
    from trackbed.cluster.stacks.install.steps import Install, steps

    found: list[Step] = []
    for step in steps(stack, plan):
        if isinstance(step, Install):
            if {"all", step.release} & set(skip):
                continue
            if step.version is None or step.source.repository is None:
                refuse(
                    f"chart {step.release}: the site chooses its version; install it, then say --skip {step.release}"
                )
        found.append(step)
    return found


def _show(found: Sequence[Change]) -> None:
    for one in found:
        click.echo(f"{one.outcome:9} {one.what}")
        for line in one.fields:
            click.echo(f"          {line}")
    if not found:
        click.echo("the cluster is as wanted")


def _agree(found: Sequence[Change], *, yes: bool) -> None:
    if not found or yes:
        return
    if not sys.stdin.isatty():
        refuse("nobody can be asked here; say --yes to do this, or `trackbed diff cluster` only to look")
    if not click.confirm("Do this?"):
        refuse("nothing was done")


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _report(changes: Iterable[Change], form: str) -> None:
    done = list(changes)
    if form == "json":
        emit_json({"changes": done})
        return
    counts = Counter(one.outcome for one in done)
    click.echo(", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "nothing to do")
