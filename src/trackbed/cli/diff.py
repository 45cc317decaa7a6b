"""`trackbed diff`: how a host differs from the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from trackbed.cli.cluster import diff_cluster
from trackbed.cli.fleet import reach_options
from trackbed.cli.machine import booted, machine_options, show
from trackbed.cli.options import node_of, node_option, output_option, plan_option, read_plan, refuse

if TYPE_CHECKING:
    from pathlib import Path


@click.group("diff", invoke_without_command=True, subcommand_metavar="[cluster STACK]")
@plan_option
@node_option
@machine_options
@reach_options
@output_option("table", "json")
def command(
    fabric_file: str,
    node_name: str | None,
    root: Path,
    netns: Path | None,
    form: str,
    **reach: Any,  # noqa: ANN401 - the options of reach_options
) -> None:
    """Show how this host, or each of many, differs from the plan; nothing is changed.

    Exits with 0 when it does not differ, with 1 when it does, with 3 when --root is an unpacked archive of `trackbed
    capture` and no --netns says where its network is: the archive does not hold it.

    \b
    Examples:
      trackbed diff -f fabric.yaml
      trackbed diff -f fabric.yaml --node gpu-0 --netns /run/netns/gpu-0 -o json
      trackbed diff -f fabric.yaml --nodes 'gpu[001-512]'
    """
    if click.get_current_context().invoked_subcommand:
        return
    from trackbed.cli.inventories import machine_below
    from trackbed.host.steps import list_settings
    from trackbed.host.transaction.compare import compare
    from trackbed.kernel.netlink.codec import NetlinkError

    if reach["nodes"]:
        from trackbed.cli import fleet

        fleet.diff(fabric_file, form, **reach)
    planned = read_plan(fabric_file)
    node = node_of(planned, node_name)
    machine = machine_below(root, netns)
    if machine.unseen_reason:
        click.echo(f"{node.name} cannot be compared with the plan: {machine.unseen_reason}", err=True)
        raise SystemExit(3)
    booted(machine)
    try:
        found = compare(machine, list_settings(node))
    except (OSError, NetlinkError) as error:
        refuse(f"cannot read the state of this machine: {error}")
    show(found, form, node.name)
    raise SystemExit(1 if found.changes else 0)


command.add_command(diff_cluster)
