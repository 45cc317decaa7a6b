"""`diff`, `apply` and `doctor` with --nodes: many hosts over SSH."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trackbed.cli.completion import complete_nodes
from trackbed.cli.ending import get_status_of_interrupt
from trackbed.cli.options import ALL_NODES, combine_options, emit_json, read_plan, refuse, suggest_name
from trackbed.cli.terminal import print_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trackbed.fabric.plan.plan import Plan
    from trackbed.fleet.campaign import Campaign
    from trackbed.fleet.outcome import Outcome
    from trackbed.fleet.run import SshOptions

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

reach_options = combine_options(
    click.option(
        "--nodes",
        metavar="SET",
        shell_complete=complete_nodes,
        help="These nodes instead of this one, over SSH: 'gpu[001-512]', or all.",
    ),
    click.option("--fanout", type=click.IntRange(1, 1024), default=64, show_default=True, help="Hosts at a time."),
    click.option(
        "--timeout",
        "seconds",
        type=click.IntRange(5, 86400),
        default=300,
        show_default=True,
        metavar="SECONDS",
        help="Seconds that a host may take; an apply then rolls back.",
    ),
    click.option("--user", metavar="NAME", help="Log in as this user; sudo without a password unless root."),
    click.option("--ssh-config", type=_FILE, metavar="FILE", help="Instead of your own ~/.ssh/config (ssh -F)."),
)
"""--nodes SET and the options of SSH."""

order_options = combine_options(
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
"""The options of batches, failures, reboot and resumption."""


def diff_hosts(fabric_file: str, output_format: str, **reach: Any) -> None:  # noqa: ANN401 - the options of reach_options
    """Print how many hosts differ from the plan, and exit with status 0 or 1."""
    campaign = _build_campaign(fabric_file, reach)
    from trackbed.fleet.campaign import diff_all

    advice = "nothing was changed; run this again"
    _run_campaign(campaign, output_format, lambda report: diff_all(campaign, report), advice)


def apply_to_hosts(fabric_file: str, output_format: str, log: Path, *, resume: bool, **options: Any) -> None:  # noqa: ANN401 - as above
    """Apply the plan to many hosts in batches, a canary first, or undo it there; stop at too many failures."""
    campaign = _build_campaign(fabric_file, options)
    from trackbed.fleet.campaign import apply_all
    from trackbed.fleet.log import LogBusyError, open_log

    try:
        with open_log(log, resume=resume) as run_log:
            advice = "a host that has started always finishes; run this again with --resume"
            _run_campaign(campaign, output_format, lambda report: apply_all(campaign, run_log, report), advice)
    except LogBusyError as error:
        refuse(error)
    except OSError as error:
        refuse(f"cannot keep the run log {log}: {error.strerror}; name another with --log")


def _build_campaign(fabric_file: str, options: dict[str, Any]) -> Campaign:
    plan = read_plan(fabric_file)
    from trackbed.fleet.campaign import Campaign
    from trackbed.fleet.order import Order, compute_batch_size

    names = select_names(plan, options["nodes"])
    order = Order(options.get("batch", "100%"), options.get("canary", 0), options.get("max_failures", 0))
    try:
        compute_batch_size(order.batch, len(names))
    except ValueError as error:
        refuse(error)
    transport = build_ssh_options(options)
    by_name = {node.name: node for node in plan.nodes}
    nodes = {name: by_name[name] for name in names}
    return Campaign(
        nodes,
        transport,
        order,
        options["persist"],
        options["seconds"],
        reboot=options.get("reboot", False),
        removals=options.get("removals"),
        verb=options.get("verb", "apply"),
    )


def build_ssh_options(options: dict[str, Any]) -> SshOptions:
    """Return the options of SSH from those of reach_options."""
    from trackbed.fleet.run import SshOptions

    return SshOptions(options["fanout"], 15, options["user"], options["ssh_config"])


def select_names(plan: Plan, node_set: str) -> list[str]:
    """Return the names in a set such as gpu[001-512]. Exit with status 2 for names that the plan does not have."""
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    if node_set == ALL_NODES:
        return [node.name for node in plan.nodes]
    try:
        names = [str(name) for name in NodeSet(node_set)]
    except NodeSetException as error:
        refuse(f"--nodes {node_set}: {error}")
    known = {node.name for node in plan.nodes}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        others = f" (and {len(unknown) - 1} more of --nodes)" if len(unknown) > 1 else ""
        name = unknown[0] if unknown else node_set
        refuse(f"fabric {plan.common.fabric!r} has no node {name!r}{others}{suggest_name(name, known)}")
    return names


def _run_campaign(
    campaign: Campaign, output_format: str, work: Callable[[Callable[[Outcome], None]], None], advice: str
) -> None:
    """Run `work` on all hosts, print each outcome, and exit. `advice` is for a user who has interrupted it.

    The status is 0 if all are good, 3 if nothing is known of the others, else 1.
    """
    from trackbed.fleet.outcome import NOT_BEGUN

    outcomes: list[Outcome] = []

    def print_outcome(outcome: Outcome) -> None:
        outcomes.append(outcome)
        if outcome.kind == NOT_BEGUN:  # the summary has them in one line
            return
        if output_format != "json" or not outcome.is_good:
            count = f"[{len(outcomes)}/{len(campaign.nodes)}]"
            print_line(f"{count} {outcome.node}: {outcome.message}", err=not outcome.is_good)

    try:
        work(print_outcome)
    except ValueError as error:
        refuse(error)
    except KeyboardInterrupt as interrupt:
        click.echo(f"stopped after {len(outcomes)} of {len(campaign.nodes)} hosts; {advice}", err=True)
        _print_summary(outcomes, campaign, output_format)
        raise SystemExit(get_status_of_interrupt(interrupt)) from interrupt
    _print_summary(outcomes, campaign, output_format)
    raise SystemExit(_choose_status(outcomes, len(campaign.nodes)))


def _choose_status(outcomes: Sequence[Outcome], expected: int) -> int:
    others = [outcome for outcome in outcomes if not outcome.is_good]
    if not others:
        return 0 if len(outcomes) == expected else 1
    return 3 if all(outcome.is_unknown for outcome in others) else 1


def _print_summary(outcomes: list[Outcome], campaign: Campaign, output_format: str) -> None:
    from trackbed.fabric.host_ranges import fold_hosts
    from trackbed.fleet.outcome import NOT_BEGUN

    if output_format == "json":
        emit_json({"nodes": outcomes, "total": len(campaign.nodes)})
        return
    good = sum(outcome.is_good for outcome in outcomes)
    unread = len(campaign.nodes) - len(outcomes)
    state = "as before the last apply" if campaign.verb == "undo" else "as planned"
    unknown = f", {unread} are not known" if unread else ""
    click.echo(f"{good} of {len(campaign.nodes)} hosts are {state}{unknown}")
    for kind in sorted({outcome.kind for outcome in outcomes if not outcome.is_good}):
        those = [outcome for outcome in outcomes if outcome.kind == kind]
        words = f": {those[0].message}" if kind == NOT_BEGUN else ""
        click.echo(f"{kind}: {fold_hosts([outcome.node for outcome in those])} ({len(those)}){words}", err=True)
