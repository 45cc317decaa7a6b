"""`trackbed apply`: apply the plan to a host, or undo the last apply."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import click

from trackbed.cli.cluster import apply_cluster
from trackbed.cli.confirmed_apply import Target, apply_shown, confirm_changes, describe_error, show_differences
from trackbed.cli.fleet import order_options, reach_options
from trackbed.cli.groups import CommandGroup
from trackbed.cli.machine import (
    build_document,
    machine_options,
    persist_option,
    print_reboot_note,
    select_boot_files,
)
from trackbed.cli.old_forms import refuse_option
from trackbed.cli.options import emit_json, fail, find_node, node_option, output_option, plan_option, read_plan, refuse
from trackbed.fabric.counts import format_count

if TYPE_CHECKING:
    from pathlib import Path

    from trackbed.fabric.plan.plan import NodePlan, Plan
    from trackbed.host.machine import Machine
    from trackbed.host.transaction.apply import ApplyResult


@click.group("apply", cls=CommandGroup, invoke_without_command=True, subcommand_metavar="[cluster STACK]")
@plan_option
@node_option
@machine_options
@persist_option
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation; required without a terminal.")
@click.option(
    "--removals",
    type=click.IntRange(0),
    metavar="N",
    help="Apply a plan that does not fit the host; N repeats the number of removals that diff shows.",
)
@refuse_option("--remove", instead="--removals {value}")
@click.option("--undo", is_flag=True, help="Restore the state before the last apply.")
@reach_options
@order_options
@output_option("table", "json")
def command(
    fabric_file: str,
    node_name: str | None,
    root: Path,
    netns: Path | None,
    persist: str,
    dry_run: bool,
    yes: bool,
    removals: int | None,
    undo: bool,
    output_format: str,
    **fleet: Any,  # noqa: ANN401 - the options of reach_options and order_options
) -> None:
    """Apply the plan to this host, or to many hosts; each is changed completely or not at all.

    Shows the differences and makes only those. If the host changes before they are made, the new ones are shown and
    confirmed; --yes goes on only where nothing is new, and else exits with 1, with nothing changed. With --nodes,
    nothing is shown first. The previous state is recorded; a failure, and later --undo, restores it. Exits with 1 when
    a difference remains that needs manual work. Exits with 2, with nothing changed, when the host lacks planned ports,
    has another plan's rules, or would lose more than a third of its addresses, routes, rules and VFs; see --removals.

    \b
    Examples:
      trackbed apply -f fabric.yaml --dry-run
      trackbed apply -f fabric.yaml --yes
      trackbed apply -f renumbered.yaml --removals 34 --yes
      trackbed apply --undo
      trackbed apply -f fabric.yaml --nodes 'gpu[001-512]' --batch 10% \\
          --max-failures 2 --yes
      trackbed apply -f fabric.yaml --nodes 'gpu[001-512]' --undo --yes
    """
    if click.get_current_context().invoked_subcommand:
        return
    from trackbed.cli.inventories import open_machine
    from trackbed.host.change import Comparison

    if undo and dry_run:
        refuse("--undo shows nothing beforehand; leave --dry-run out")
    if fleet["nodes"]:
        options = fleet | {"persist": persist, "removals": removals, "verb": "undo" if undo else "apply"}
        _apply_to_fleet(fabric_file, output_format, options, dry_run=dry_run, yes=yes)
    machine = open_machine(root, netns)
    if machine.unseen_reason:
        refuse(f"nothing is applied below {root}: {machine.unseen_reason}")
    if undo:
        _undo_last_apply(machine)
        return
    plan = read_plan(fabric_file)
    node = find_node(plan, node_name)
    _check_host_name(machine, plan, node, removals)
    files = _render_files(machine, node, persist)
    target = Target(machine, node, files, removals, output_format)
    preview = show_differences(target, dry_run=dry_run)
    if dry_run or preview.is_empty:
        if output_format == "json" and not dry_run:
            emit_json({"applied": 0, "files": []} | build_document(Comparison((), ()), node.name))
        raise SystemExit(1 if dry_run and not preview.is_empty else 0)
    confirm_changes(yes=yes)
    _print_result_and_exit(apply_shown(target, preview, yes=yes), node, output_format)


def _apply_to_fleet(fabric_file: str, output_format: str, options: dict[str, Any], *, dry_run: bool, yes: bool) -> None:
    from trackbed.cli import fleet

    if dry_run:
        reach = ("nodes", "fanout", "seconds", "user", "ssh_config", "persist")
        fleet.diff_hosts(fabric_file, output_format, **{name: options[name] for name in reach})
    nodes = options["nodes"]
    is_undo = options["verb"] == "undo"
    question = f"Undo the last apply on {nodes}?" if is_undo else f"Apply to {nodes}? (--dry-run shows what differs)"
    confirm_changes(question, yes=yes)
    fleet.apply_to_hosts(fabric_file, output_format, **options)


def _render_files(machine: Machine, node: NodePlan, persist: str) -> dict[str, str] | None:
    from trackbed.host.network_manager import ManagerError

    try:
        return select_boot_files(machine, node, persist)
    except ManagerError as error:
        refuse(f"{node.name}: {error}; nothing was changed")


def _check_host_name(machine: Machine, plan: Plan, node: NodePlan, removals: int | None) -> None:
    """Exit with status 2 if this host's name is that of another node of the plan."""
    from pathlib import Path

    hostname = socket.gethostname().partition(".")[0]
    if machine.root != Path("/") or machine.netns is not None or removals is not None or hostname == node.name:
        return
    if plan.find_node(hostname) is not None:
        refuse(
            f"this host is {hostname}, another node of fabric {plan.common.fabric!r} than {node.name}; nothing was"
            " changed. Leave out --node, or confirm the number of removals that diff shows with --removals"
        )


def _print_result_and_exit(applied: ApplyResult, node: NodePlan, output_format: str) -> None:
    for warning in applied.warnings:
        click.echo(f"warning: {warning}", err=True)
    if output_format == "json":
        paths = [change.path for change in applied.files]
        emit_json({"applied": len(applied.changes), "files": paths} | build_document(applied.remaining, node.name))
    else:
        click.echo(
            f"{node.name}: made {format_count(len(applied.changes), 'change')}, "
            f"wrote {format_count(len(applied.files), 'file')} for the next boot"
        )
        for change in applied.remaining.changes:
            click.echo(
                f"still different: {change.subject} is {change.have}, not {change.want}: {change.advice}", err=True
            )
        print_reboot_note(applied.remaining)
    raise SystemExit(1 if applied.remaining.changes else 0)


def _undo_last_apply(machine: Machine) -> None:
    from trackbed.host.transaction.apply import UNDO_AGAIN, HostError, NothingToUndoError, describe_undo, undo
    from trackbed.host.transaction.record import find_folder
    from trackbed.kernel.netlink.codec import NetlinkError

    folder = find_folder(machine)
    try:
        outcome = describe_undo(folder)
        problems = undo(machine, folder)
    except NothingToUndoError as error:
        refuse(error)
    except (HostError, OSError, ValueError, NetlinkError) as error:
        fail(describe_error(error))
    for problem in problems:
        click.echo(f"not restored: {problem}", err=True)
    click.echo("everything else is restored" if problems else outcome)
    if problems:
        click.echo(UNDO_AGAIN, err=True)
    raise SystemExit(1 if problems else 0)


command.add_command(apply_cluster)
