"""`trackbed apply`: apply the plan to a host, or undo the last apply."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from trackbed.cli.cluster import apply_cluster
from trackbed.cli.fleet import order_options, reach_options
from trackbed.cli.machine import build_document, machine_options, print_reboot_note, show, wait_for_boot
from trackbed.cli.options import emit_json, find_node, node_option, output_option, plan_option, read_plan, refuse

if TYPE_CHECKING:
    from pathlib import Path

    from trackbed.fabric.plan.plan import NodePlan
    from trackbed.host.machine import Machine
    from trackbed.host.transaction.apply import Applied

PERSIST = ("auto", "netplan", "networkd", "networkmanager", "none")


@click.group("apply", invoke_without_command=True, subcommand_metavar="[cluster STACK]")
@plan_option
@node_option
@machine_options
@click.option(
    "--persist",
    type=click.Choice(PERSIST),
    default="auto",
    show_default=True,
    help="Format of the files for the next boot. auto: what the machine uses; none for --netns alone.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation; required without a terminal.")
@click.option("--undo", "back", is_flag=True, help="Restore the state before the last apply.")
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
    back: bool,
    output_format: str,
    **fleet: Any,  # noqa: ANN401 - the options of reach_options and order_options
) -> None:
    """Apply the plan to this host, or to many hosts; each is changed completely or not at all.

    Shows the differences first. The previous state is recorded; a failure, and later --undo, restores it. Exits with 1
    when a difference remains that needs manual work.

    \b
    Examples:
      trackbed apply -f fabric.yaml --dry-run
      trackbed apply -f fabric.yaml --yes
      trackbed apply --undo
      trackbed apply -f fabric.yaml --nodes 'gpu[001-512]' --batch 10% --max-failures 2 --yes
    """
    if click.get_current_context().invoked_subcommand:
        return
    from trackbed.cli.inventories import open_machine
    from trackbed.host.change import Comparison

    if fleet["nodes"]:
        _apply_to_fleet(fabric_file, output_format, fleet | {"persist": persist}, (dry_run, yes, back))
    machine = open_machine(root, netns)
    if machine.unseen_reason:
        refuse(f"nothing is applied below {root}: {machine.unseen_reason}")
    if back:
        _undo(machine)
        return
    planned = read_plan(fabric_file)
    node = find_node(planned, node_name)
    files = _render_files(machine, node, persist)
    differs = _show_preview(machine, node, files, "quiet" if output_format == "json" and not dry_run else output_format)
    if dry_run or not differs:
        if output_format == "json" and not dry_run:
            emit_json({"applied": 0, "files": []} | build_document(Comparison((), ()), node.name))
        raise SystemExit(1 if dry_run and differs else 0)
    _confirm(yes=yes)
    _report(_apply(machine, node, files), node, output_format)


def _apply_to_fleet(
    fabric_file: str, output_format: str, options: dict[str, Any], flags: tuple[bool, bool, bool]
) -> None:
    from trackbed.cli import fleet

    dry_run, yes, back = flags
    if back:
        refuse("--undo is for one host; run it there")
    if dry_run:
        reach = ("nodes", "fanout", "seconds", "user", "ssh_config", "persist")
        fleet.diff(fabric_file, output_format, **{name: options[name] for name in reach})
    _confirm(yes=yes)
    fleet.apply(fabric_file, output_format, **options)


def _render_files(machine: Machine, node: NodePlan, persist: str) -> dict[str, str] | None:
    from pathlib import Path

    from trackbed.host.render import FORMATS
    from trackbed.host.transaction.files import find_renderer, list_warnings

    if persist == "none" or (persist == "auto" and machine.netns is not None and machine.root == Path("/")):
        return None
    chosen = find_renderer(machine) if persist == "auto" else persist
    for warning in list_warnings(machine, node):
        click.echo(f"warning: {warning}", err=True)
    return next(render for name, render in FORMATS.items() if name == chosen)(node)


def _show_preview(machine: Machine, node: NodePlan, files: dict[str, str] | None, output_format: str) -> bool:
    """Show the differences after the host has booted; return whether there are any."""
    from trackbed.host.steps import list_settings
    from trackbed.host.transaction.compare import compare, drop_files
    from trackbed.host.transaction.files import list_differences
    from trackbed.kernel.netlink.codec import NetlinkError

    wait_for_boot(machine)
    try:
        comparison = compare(machine, list_settings(node))
        comparison = comparison if files is not None else drop_files(comparison)
        rewritten = list_differences(machine, files) if files is not None else ()
    except (OSError, NetlinkError) as error:
        refuse(f"cannot read the state of this machine: {error}")
    if output_format != "quiet":
        show(comparison, output_format, node.name)
    for change in rewritten:
        click.echo(f"{'delete' if change.want is None else 'write'} {change.path}", err=True)
    return bool(comparison.changes or rewritten)


def _confirm(*, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        refuse("standard input is no terminal to confirm on; add --yes to apply, or --dry-run to look only")
    if not click.confirm("Apply these changes?"):
        refuse("nothing was changed")


def _apply(machine: Machine, node: NodePlan, files: dict[str, str] | None) -> Applied:
    from trackbed.host.steps import list_settings
    from trackbed.host.transaction.apply import HostError, apply
    from trackbed.host.transaction.record import find_folder
    from trackbed.kernel.netlink.codec import NetlinkError

    try:
        return apply(machine, list_settings(node), find_folder(machine), files, until_reboot=files is None)
    except (HostError, OSError, ValueError, NetlinkError) as error:
        click.echo(f"trackbed: {node.name}: {error}", err=True)
        raise SystemExit(1) from error


def _report(applied: Applied, node: NodePlan, output_format: str) -> None:
    if output_format == "json":
        paths = [change.path for change in applied.files]
        emit_json({"applied": len(applied.changes), "files": paths} | build_document(applied.left, node.name))
    else:
        click.echo(
            f"{node.name}: made {len(applied.changes)} changes, wrote {len(applied.files)} files for the next boot"
        )
        for change in applied.left.changes:
            click.echo(
                f"still different: {change.subject} is {change.have}, not {change.want}: {change.advice}", err=True
            )
        print_reboot_note(applied.left)
    raise SystemExit(1 if applied.left.changes else 0)


def _undo(machine: Machine) -> None:
    from trackbed.host.transaction.apply import NothingToUndoError, undo
    from trackbed.host.transaction.record import find_folder
    from trackbed.kernel.netlink.codec import NetlinkError

    try:
        problems = undo(machine, find_folder(machine))
    except NothingToUndoError as error:
        refuse(str(error))
    except (OSError, ValueError, NetlinkError) as error:
        click.echo(f"trackbed: {error}", err=True)
        raise SystemExit(1) from error
    for problem in problems:
        click.echo(f"not restored: {problem}", err=True)
    click.echo("the state before the last apply is restored" if not problems else "everything else is restored")
    raise SystemExit(1 if problems else 0)


command.add_command(apply_cluster)
