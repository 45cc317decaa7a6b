"""`trackbed doctor`: faults of this host, with cause and fix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource

from trackbed.cli.fleet import reach_options
from trackbed.cli.machine import machine_options
from trackbed.cli.old_forms import refuse_option
from trackbed.cli.options import AGENT_SOCKET, find_node, node_option, output_option, plan_option, read_plan, refuse

if TYPE_CHECKING:
    from trackbed.fabric.plan.plan import NodePlan, Plan
    from trackbed.host.machine import Machine


@click.command("doctor")
@click.argument(
    "captures", metavar="[CAPTURE]...", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@plan_option
@node_option
@machine_options
@reach_options
@click.option(
    "--socket",
    "agent",
    type=click.Path(path_type=Path),
    default=AGENT_SOCKET,
    show_default=True,
    help="The agent's socket.",
)
@click.option(
    "--lldp",
    "listen",
    type=click.FloatRange(0, 300),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds to listen for LLDP. Leaves send every 30 s: with 31 or more, silence is a finding.",
)
@refuse_option("--listen", instead="--lldp {value}")
@refuse_option("--agent", instead="--socket {value}")
@click.option("--all", "everything", is_flag=True, help="Show passed checks, too.")
@output_option("text", "json")
def command(
    captures: tuple[Path, ...],
    fabric_file: str,
    node_name: str | None,
    root: Path,
    netns: Path | None,
    agent: Path,
    listen: float,
    everything: bool,
    output_format: str,
    **reach: Any,  # noqa: ANN401 - the options of reach_options
) -> None:
    """Check the chain from the PCI device to the pod, and name the first fault.

    Reads kernel, files and pods, and probes the rails; changes nothing. With --root on an unpacked archive of
    `trackbed capture`, only files and recorded program output are checked; the network is unknown. With --nodes,
    reads and checks the nodes over SSH and compares them with each other; gateways, peers and pods are not tested. With
    several CAPTUREs (archives of `trackbed capture --identified`), only compares the nodes. Exits with 0 when sound, 1
    when something is broken, 3 when something could not be checked.

    \b
    Examples:
      trackbed doctor -f fabric.yaml
      trackbed doctor -f fabric.yaml --lldp 31 -o json
      trackbed doctor -f fabric.yaml --root gpu-0 --node gpu-0
      trackbed doctor -f fabric.yaml gpu-0.tar.gz gpu-1.tar.gz
      trackbed doctor -f fabric.yaml --nodes 'gpu[001-512]'
      trackbed doctor -f fabric.yaml --nodes all --lldp 31 -o json
    """
    if captures or reach["nodes"]:
        _refuse_other_machines(captures)
        _diagnose_site(captures, fabric_file, reach | {"lldp": listen}, output_format, everything=everything)
    from functools import partial

    from trackbed.cli.findings import print_diagnosis
    from trackbed.cli.inventories import open_machine
    from trackbed.doctor.diagnosis import diagnose_nodes
    from trackbed.doctor.inspection import InspectionTarget, inspect_node
    from trackbed.doctor.probes import ProbeTimeouts
    from trackbed.kernel.netlink.codec import NetlinkError
    from trackbed.node.rails.client import read_status

    plan = read_plan(fabric_file)
    machine, node = open_machine(root, netns), find_node(plan, node_name)
    _check_host_name(machine, plan, node)
    if machine.unseen_reason:
        _diagnose_archive(machine, node, output_format, everything=everything)
    target = InspectionTarget(machine, node, partial(read_status, agent))
    try:
        view = inspect_node(target, plan, ProbeTimeouts(lldp=listen))
    except (OSError, NetlinkError) as error:
        refuse(f"cannot inspect this machine: {error}")
    diagnosis = diagnose_nodes([view])
    print_diagnosis(diagnosis, output_format, everything=everything)
    raise SystemExit(diagnosis.exit_status)


def _check_host_name(machine: Machine, plan: Plan, node: NodePlan) -> None:
    """Exit with status 2 if the machine is another node of the plan; print a note if its name is of none."""
    from trackbed.doctor.host_name import find_other_node, read_host_name

    host_name = read_host_name(machine)
    place = "this host" if machine.root == Path("/") else f"the machine below {machine.root}"
    other = find_other_node(plan, node, machine, host_name)
    if other:
        refuse(
            f"{place} is {other} by its host name, another node of fabric {plan.common.fabric!r} than {node.name}, so"
            f" each difference between the two would look like a fault. Write --node {other}, or name the files of"
            f" {node.name} with --root; if the host name is wrong, set it there first: hostnamectl set-hostname"
            f" {node.name}"
        )
    if host_name and machine.root != Path("/") and plan.find_node(host_name) is None and host_name != node.name:
        click.echo(f"note: {place} is called {host_name}; it is judged as {node.name}", err=True)


def _refuse_other_machines(captures: tuple[Path, ...]) -> None:
    context = click.get_current_context()
    others = {"node_name": "--node", "root": "--root", "netns": "--netns"} | ({"nodes": "--nodes"} if captures else {})
    for name, option in others.items():
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            source = "captures name" if captures else "--nodes names"
            refuse(f"{source} the machines, and {option} names others; leave one of the two out")


def _diagnose_site(
    captures: tuple[Path, ...], fabric_file: str, reach: dict[str, Any], output_format: str, *, everything: bool
) -> NoReturn:
    from trackbed.cli import sites

    plan = read_plan(fabric_file)
    if captures:
        sites.print_site(sites.diagnose_captures(captures, plan), output_format, everything=everything)
    judged = sites.judge_hosts(plan, reach, keeps_passes=everything)
    sites.print_judged_site(judged, plan, output_format, everything=everything)


def _diagnose_archive(machine: Machine, node: NodePlan, output_format: str, *, everything: bool) -> NoReturn:
    from trackbed.cli import archived
    from trackbed.cli.findings import print_diagnosis

    diagnosis = archived.diagnose_archive(machine, node)
    print_diagnosis(
        diagnosis if output_format == "json" else archived.drop_skipped(diagnosis, machine.unseen_reason),
        output_format,
        everything=everything,
    )
    skipped = ", ".join(archived.list_skipped_steps(diagnosis, machine.unseen_reason))
    click.echo(f"not judged: {skipped}; {machine.unseen_reason}", err=True)
    raise SystemExit(diagnosis.exit_status)
