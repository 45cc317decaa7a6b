"""`trackbed apply`: make a host as planned, or as it was before."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from trackbed.cli.cluster import apply_cluster
from trackbed.cli.fleet import order_options, reach_options
from trackbed.cli.machine import booted, document, machine_options, show, tell_reboot
from trackbed.cli.options import emit_json, node_of, node_option, output_option, plan_option, read_plan, refuse

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
    help="Format of the files for the next boot. auto: what the machine uses; none for a mere --netns.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can answer.")
@click.option("--undo", "back", is_flag=True, help="Put everything back to before the last apply.")
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
    form: str,
    **fleet: Any,  # noqa: ANN401 - the options of reach_options and order_options
) -> None:
    """Make this host as planned, or each of many: all of it, or nothing.

    Shows the differences first. What was there before is recorded, so a failure, and later --undo, puts it back. Exits
    with 1 when something differs that only a person can mend.

    \b
    Examples:
      trackbed apply -f fabric.yaml --dry-run
      trackbed apply -f fabric.yaml --yes
      trackbed apply --undo
      trackbed apply -f fabric.yaml --nodes 'gpu[001-512]' --batch 10% --max-failures 2 --yes
    """
    if click.get_current_context().invoked_subcommand:
        return
    from trackbed.cli.inventories import machine_below
    from trackbed.host.change import Comparison

    if fleet["nodes"]:
        _fleet(fabric_file, form, fleet | {"persist": persist}, (dry_run, yes, back))
    machine = machine_below(root, netns)
    if machine.unseen_reason:
        refuse(f"nothing is applied below {root}: {machine.unseen_reason}")
    if back:
        _undo(machine)
        return
    planned = read_plan(fabric_file)
    node = node_of(planned, node_name)
    files = _files(machine, node, persist)
    differs = _preview(machine, node, files, "quiet" if form == "json" and not dry_run else form)
    if dry_run or not differs:
        if form == "json" and not dry_run:
            emit_json({"applied": 0, "files": []} | document(Comparison((), ()), node.name))
        raise SystemExit(1 if dry_run and differs else 0)
    _agree(yes=yes)
    _report(_apply(machine, node, files), node, form)


def _fleet(fabric_file: str, form: str, options: dict[str, Any], said: tuple[bool, bool, bool]) -> None:
    from trackbed.cli import fleet

    dry_run, yes, back = said
    if back:
        refuse("--undo is for one host; run it there")
    if dry_run:
        reach = ("nodes", "fanout", "seconds", "user", "ssh_config", "persist")
        fleet.diff(fabric_file, form, **{name: options[name] for name in reach})
    _agree(yes=yes)
    fleet.apply(fabric_file, form, **options)


def _files(machine: Machine, node: NodePlan, persist: str) -> dict[str, str] | None:
    from pathlib import Path

    from trackbed.host.render import FORMATS
    from trackbed.host.transaction.files import find_renderer, list_warnings

    if persist == "none" or (persist == "auto" and machine.netns is not None and machine.root == Path("/")):
        return None
    chosen = find_renderer(machine) if persist == "auto" else persist
    for warning in list_warnings(machine, node):
        click.echo(f"warning: {warning}", err=True)
    return next(render for name, render in FORMATS.items() if name == chosen)(node)


def _preview(machine: Machine, node: NodePlan, files: dict[str, str] | None, form: str) -> bool:
    """Show what differs once the host has booted; whether anything is to be done."""
    from trackbed.host.steps import list_settings
    from trackbed.host.transaction.compare import compare, drop_files
    from trackbed.host.transaction.files import list_differences
    from trackbed.kernel.netlink.codec import NetlinkError

    booted(machine)
    try:
        found = compare(machine, list_settings(node))
        found = found if files is not None else drop_files(found)
        rewritten = list_differences(machine, files) if files is not None else ()
    except (OSError, NetlinkError) as error:
        refuse(f"cannot read the state of this machine: {error}")
    if form != "quiet":
        show(found, form, node.name)
    for change in rewritten:
        click.echo(f"{'delete' if change.want is None else 'write'} {change.path}", err=True)
    return bool(found.changes or rewritten)


def _agree(*, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        refuse("nobody can be asked here; say --yes to do this, or --dry-run only to look")
    if not click.confirm("Do this?"):
        refuse("nothing was done")


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


def _report(done: Applied, node: NodePlan, form: str) -> None:
    if form == "json":
        paths = [change.path for change in done.files]
        emit_json({"applied": len(done.changes), "files": paths} | document(done.left, node.name))
    else:
        click.echo(f"{node.name}: made {len(done.changes)} changes, wrote {len(done.files)} files for the next boot")
        for change in done.left.changes:
            click.echo(
                f"still different: {change.subject} is {change.have}, not {change.want}: {change.advice}", err=True
            )
        tell_reboot(done.left)
    raise SystemExit(1 if done.left.changes else 0)


def _undo(machine: Machine) -> None:
    from trackbed.host.transaction.apply import NothingToUndoError, undo
    from trackbed.host.transaction.record import find_folder
    from trackbed.kernel.netlink.codec import NetlinkError

    try:
        wrong = undo(machine, find_folder(machine))
    except NothingToUndoError as error:
        refuse(str(error))
    except (OSError, ValueError, NetlinkError) as error:
        click.echo(f"trackbed: {error}", err=True)
        raise SystemExit(1) from error
    for problem in wrong:
        click.echo(f"not put back: {problem}", err=True)
    click.echo("everything is as it was before the last apply" if not wrong else "the rest was put back")
    raise SystemExit(1 if wrong else 0)


command.add_command(apply_cluster)
