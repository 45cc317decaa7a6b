"""`diff` and `apply` with --nodes: the same on many hosts, over SSH."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trackbed.cli.options import emit_json, meant, read_plan, refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from trackbed.fabric.plan.plan import Plan
    from trackbed.fleet.campaign import Campaign
    from trackbed.fleet.outcome import Outcome

_Command = TypeVar("_Command", bound="Callable[..., Any]")
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

_REACH = (
    click.option("--nodes", metavar="SET", help="These hosts instead of this one, over SSH: 'gpu[001-512]'."),
    click.option("--fanout", type=click.IntRange(1, 1024), default=64, show_default=True, help="Hosts at a time."),
    click.option(
        "--timeout",
        "seconds",
        type=click.IntRange(5, 86400),
        default=300,
        show_default=True,
        help="Seconds that a host may take; then it puts everything back.",
    ),
    click.option("--user", metavar="NAME", help="Log in as this user; sudo without a password unless root."),
    click.option("--ssh-config", type=_FILE, metavar="FILE", help="Instead of your own ~/.ssh/config (ssh -F)."),
)
_ORDER = (
    click.option("--batch", default="10%", show_default=True, metavar="N|N%", help="Hosts in one batch."),
    click.option("--canary", type=click.IntRange(0), default=1, show_default=True, help="Hosts to try it on first."),
    click.option(
        "--max-failures", type=click.IntRange(0), default=0, show_default=True, help="Stop when more than this failed."
    ),
    click.option("--reboot", is_flag=True, help="Reboot hosts where something waits for it, batch by batch."),
    click.option("--resume", is_flag=True, help="Pass by hosts that the log says are done."),
    click.option(
        "--log",
        type=click.Path(dir_okay=False, path_type=Path),
        default="trackbed-run.jsonl",
        show_default=True,
        help="What became of each host.",
    ),
)


def reach_options(command: _Command) -> _Command:
    """--nodes and how hosts are reached."""
    for option in reversed(_REACH):
        command = option(command)
    return command


def order_options(command: _Command) -> _Command:
    """In which order many hosts have their turn."""
    for option in reversed(_ORDER):
        command = option(command)
    return command


def diff(fabric_file: str, form: str, **reach: Any) -> None:  # noqa: ANN401 - the options of reach_options
    """Show how many hosts differ from the plan."""
    campaign = _campaign(fabric_file, reach)
    from trackbed.fleet.campaign import diff_all

    _carry_out(campaign, form, lambda told: diff_all(campaign, told))


def apply(fabric_file: str, form: str, log: Path, *, resume: bool, **options: Any) -> None:  # noqa: ANN401 - as above
    """Apply to many hosts: canary, batches, stop on failure."""
    campaign = _campaign(fabric_file, options)
    from trackbed.fleet.campaign import apply_all
    from trackbed.fleet.log import LogBusyError, opened

    try:
        with opened(log, resume=resume) as run_log:
            _carry_out(campaign, form, lambda told: apply_all(campaign, run_log, told))
    except LogBusyError as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"cannot keep the run log {log}: {error.strerror}; name another with --log")


def _campaign(fabric_file: str, options: dict[str, Any]) -> Campaign:
    planned = read_plan(fabric_file)
    from trackbed.fleet.campaign import Campaign
    from trackbed.fleet.order import Order, size_of
    from trackbed.fleet.run import Way

    names = _names(planned, options["nodes"])
    order = Order(options.get("batch", "100%"), options.get("canary", 0), options.get("max_failures", 0))
    try:
        size_of(order.batch, len(names))
    except ValueError as error:
        refuse(str(error))
    way = Way(options["fanout"], 15, options["user"], options["ssh_config"])
    by_name = {node.name: node for node in planned.nodes}
    nodes = {name: by_name[name] for name in names}
    return Campaign(
        nodes, way, order, options.get("persist", "none"), options["seconds"], reboot=options.get("reboot", False)
    )


def _names(planned: Plan, wanted: str) -> list[str]:
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    try:
        names = [str(name) for name in NodeSet(wanted)]
    except NodeSetException as error:
        refuse(f"--nodes {wanted}: {error}")
    known = {node.name for node in planned.nodes}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        more = f" (and {len(unknown) - 1} more of --nodes)" if len(unknown) > 1 else ""
        name = unknown[0] if unknown else wanted
        refuse(f"fabric {planned.common.fabric!r} has no node {name!r}{more}{meant(name, known)}")
    return names


def _carry_out(campaign: Campaign, form: str, do: Callable[[Callable[[Outcome], None]], None]) -> None:
    """Do it, tell of each host as it ends, and end with 0 or 1."""
    outcomes: list[Outcome] = []

    def told(outcome: Outcome) -> None:
        outcomes.append(outcome)
        if form != "json" or not outcome.good:
            click.echo(f"[{len(outcomes)}/{len(campaign.nodes)}] {outcome.node}: {outcome.told}", err=not outcome.good)

    try:
        do(told)
    except ValueError as error:
        refuse(str(error))
    except KeyboardInterrupt:
        click.echo("stopped; a host that has begun ends by itself. Go on with --resume", err=True)
    _summary(outcomes, len(campaign.nodes), form)
    raise SystemExit(0 if len(outcomes) == len(campaign.nodes) and all(one.good for one in outcomes) else 1)


def _summary(outcomes: list[Outcome], total: int, form: str) -> None:
    from trackbed.fabric.host_ranges import fold_hosts

    if form == "json":
        emit_json({"nodes": outcomes, "total": total})
        return
    good = sum(outcome.good for outcome in outcomes)
    click.echo(f"{good} of {total} hosts are as planned")
    for kind in sorted({outcome.kind for outcome in outcomes if not outcome.good}):
        names = [outcome.node for outcome in outcomes if outcome.kind == kind]
        click.echo(f"{kind}: {fold_hosts(names)} ({len(names)})", err=True)
