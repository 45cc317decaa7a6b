"""`diff` and `apply` with --nodes: many hosts over SSH."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trackbed.cli.options import emit_json, read_plan, refuse, suggest

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
        help="Seconds that a host may take; then it rolls back.",
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
    click.option("--reboot", is_flag=True, help="Reboot hosts with changes that need it, batch by batch."),
    click.option("--resume", is_flag=True, help="Skip hosts that are done according to the log."),
    click.option(
        "--log",
        type=click.Path(dir_okay=False, path_type=Path),
        default="trackbed-run.jsonl",
        show_default=True,
        help="File of the outcomes of hosts.",
    ),
)


def reach_options(command: _Command) -> _Command:
    """Add --nodes and the options of SSH."""
    for option in reversed(_REACH):
        command = option(command)
    return command


def order_options(command: _Command) -> _Command:
    """Add the options of batches, failures, reboot and resumption."""
    for option in reversed(_ORDER):
        command = option(command)
    return command


def diff(fabric_file: str, output_format: str, **reach: Any) -> None:  # noqa: ANN401 - the options of reach_options
    """Show how many hosts differ from the plan."""
    campaign = _build_campaign(fabric_file, reach)
    from trackbed.fleet.campaign import diff_all

    _run_campaign(campaign, output_format, lambda report: diff_all(campaign, report))


def apply(fabric_file: str, output_format: str, log: Path, *, resume: bool, **options: Any) -> None:  # noqa: ANN401 - as above
    """Apply to many hosts: canary, batches, stop on failure."""
    campaign = _build_campaign(fabric_file, options)
    from trackbed.fleet.campaign import apply_all
    from trackbed.fleet.log import LogBusyError, opened

    try:
        with opened(log, resume=resume) as run_log:
            _run_campaign(campaign, output_format, lambda report: apply_all(campaign, run_log, report))
    except LogBusyError as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"cannot keep the run log {log}: {error.strerror}; name another with --log")


def _build_campaign(fabric_file: str, options: dict[str, Any]) -> Campaign:
    planned = read_plan(fabric_file)
    from trackbed.fleet.campaign import Campaign
    from trackbed.fleet.order import Order, size_of
    from trackbed.fleet.run import Way

    names = _select_names(planned, options["nodes"])
    order = Order(options.get("batch", "100%"), options.get("canary", 0), options.get("max_failures", 0))
    try:
        size_of(order.batch, len(names))
    except ValueError as error:
        refuse(str(error))
    transport = Way(options["fanout"], 15, options["user"], options["ssh_config"])
    by_name = {node.name: node for node in planned.nodes}
    nodes = {name: by_name[name] for name in names}
    return Campaign(
        nodes, transport, order, options.get("persist", "none"), options["seconds"], reboot=options.get("reboot", False)
    )


def _select_names(planned: Plan, node_set: str) -> list[str]:
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    try:
        names = [str(name) for name in NodeSet(node_set)]
    except NodeSetException as error:
        refuse(f"--nodes {node_set}: {error}")
    known = {node.name for node in planned.nodes}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        others = f" (and {len(unknown) - 1} more of --nodes)" if len(unknown) > 1 else ""
        name = unknown[0] if unknown else node_set
        refuse(f"fabric {planned.common.fabric!r} has no node {name!r}{others}{suggest(name, known)}")
    return names


def _run_campaign(campaign: Campaign, output_format: str, work: Callable[[Callable[[Outcome], None]], None]) -> None:
    """Run on all hosts, print each outcome, and end with 0 or 1."""
    outcomes: list[Outcome] = []

    def print_outcome(outcome: Outcome) -> None:
        outcomes.append(outcome)
        if output_format != "json" or not outcome.good:
            click.echo(f"[{len(outcomes)}/{len(campaign.nodes)}] {outcome.node}: {outcome.told}", err=not outcome.good)

    try:
        work(print_outcome)
    except ValueError as error:
        refuse(str(error))
    except KeyboardInterrupt:
        click.echo("stopped; a host that has started always finishes. Continue with --resume", err=True)
    _print_summary(outcomes, len(campaign.nodes), output_format)
    raise SystemExit(0 if len(outcomes) == len(campaign.nodes) and all(outcome.good for outcome in outcomes) else 1)


def _print_summary(outcomes: list[Outcome], total: int, output_format: str) -> None:
    from trackbed.fabric.host_ranges import fold_hosts

    if output_format == "json":
        emit_json({"nodes": outcomes, "total": total})
        return
    good = sum(outcome.good for outcome in outcomes)
    click.echo(f"{good} of {total} hosts are as planned")
    for kind in sorted({outcome.kind for outcome in outcomes if not outcome.good}):
        names = [outcome.node for outcome in outcomes if outcome.kind == kind]
        click.echo(f"{kind}: {fold_hosts(names)} ({len(names)})", err=True)
