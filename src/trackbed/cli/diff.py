"""`trackbed diff`: differences of a host from the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from trackbed.cli.cluster import diff_cluster
from trackbed.cli.fleet import reach_options
from trackbed.cli.groups import CommandGroup
from trackbed.cli.machine import (
    compare_machine,
    machine_options,
    persist_option,
    print_comparison,
    print_files,
    select_boot_files,
    warn_of_refusal,
)
from trackbed.cli.options import find_node, node_option, output_option, plan_option, read_plan

if TYPE_CHECKING:
    from pathlib import Path

    from trackbed.cli.machine import Assessment
    from trackbed.fabric.plan.plan import NodePlan
    from trackbed.host.machine import Machine


@click.group("diff", cls=CommandGroup, invoke_without_command=True, subcommand_metavar="[cluster STACK]")
@plan_option
@node_option
@machine_options
@persist_option
@reach_options
@output_option("table", "json")
def command(
    fabric_file: str,
    node_name: str | None,
    root: Path,
    netns: Path | None,
    persist: str,
    output_format: str,
    **reach: Any,  # noqa: ANN401 - the options of reach_options
) -> None:
    """Show how this host, or each of many, differs from the plan, now and after its next boot; nothing is changed.

    Exits with 0 without differences, with 1 otherwise, with 3 when --root is an unpacked archive of `trackbed capture`
    without --netns: the archive does not contain the network.

    \b
    Examples:
      trackbed diff -f fabric.yaml
      trackbed diff -f fabric.yaml --persist none
      trackbed diff -f fabric.yaml --node gpu-0 --netns /run/netns/gpu-0 -o json
      trackbed diff -f fabric.yaml --nodes 'gpu[001-512]'
    """
    if click.get_current_context().invoked_subcommand:
        return
    from trackbed.cli.inventories import open_machine

    if reach["nodes"]:
        from trackbed.cli import fleet

        fleet.diff_hosts(fabric_file, output_format, persist=persist, **reach)
    plan = read_plan(fabric_file)
    node = find_node(plan, node_name)
    machine = open_machine(root, netns)
    if machine.unseen_reason:
        click.echo(f"{node.name} cannot be compared with the plan: {machine.unseen_reason}", err=True)
        raise SystemExit(3)
    judged = _compare_machine(machine, node, persist)
    print_files(judged)
    print_comparison(judged, output_format, node.name)
    warn_of_refusal(judged)
    raise SystemExit(0 if judged.is_as_planned and not judged.misfit else 1)


def _compare_machine(machine: Machine, node: NodePlan, persist: str) -> Assessment:
    """Compare a machine with its plan. Where there are no files for its next boot, that is why apply refuses.

    The files of a container are its host's, which are not compared.
    """
    from trackbed.host.network_manager import ManagerError

    if persist == "auto" and machine.shared_reason:
        return compare_machine(machine, node, None)
    try:
        return compare_machine(machine, node, select_boot_files(machine, node, persist))
    except ManagerError as error:
        judged = compare_machine(machine, node, None)
        return judged._replace(misfit=judged.misfit or str(error))


command.add_command(diff_cluster)
