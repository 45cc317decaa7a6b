"""`trackbed doctor`: faults of this host, with cause and fix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from trackbed.cli.machine import machine_options
from trackbed.cli.options import find_node, node_option, output_option, plan_option, read_plan, refuse

if TYPE_CHECKING:
    from trackbed.fabric.plan.plan import NodePlan
    from trackbed.host.machine import Machine

AGENT = Path("/run/trackbed/agent.sock")


@click.command("doctor")
@plan_option
@node_option
@machine_options
@click.option("--agent", type=click.Path(path_type=Path), default=AGENT, show_default=True, help="The agent's socket.")
@click.option(
    "--listen",
    type=click.FloatRange(0, 300),
    default=2.0,
    show_default=True,
    help="Seconds to listen for LLDP. Leaves send every 30 s: with 31 or more, silence is a finding.",
)
@click.option("--all", "everything", is_flag=True, help="Show passed checks, too.")
@output_option("text", "json")
def command(
    fabric_file: str,
    node_name: str | None,
    root: Path,
    netns: Path | None,
    agent: Path,
    listen: float,
    everything: bool,
    output_format: str,
) -> None:
    """Check the chain from the PCI device to the pod, and name the first fault.

    Reads kernel, files and pods, and probes the rails; changes nothing. Of an unpacked archive of `trackbed capture`
    (--root), it judges files and recorded programs; the network is unknown. Exits with 0 when sound, 1 when something
    is broken, 3 when something could not be checked.

    \b
    Examples:
      trackbed doctor -f fabric.yaml
      trackbed doctor -f fabric.yaml --listen 31 -o json
      trackbed doctor -f fabric.yaml --root gpu-0 --node gpu-0
    """
    from functools import partial

    from trackbed.cli.findings import show
    from trackbed.cli.inventories import open_machine
    from trackbed.doctor.diagnosis import diagnose
    from trackbed.doctor.inspection import Subject, inspect_node
    from trackbed.doctor.probes import Timeouts
    from trackbed.kernel.netlink.codec import NetlinkError
    from trackbed.node.rails.client import read_status

    planned = read_plan(fabric_file)
    machine, node = open_machine(root, netns), find_node(planned, node_name)
    if machine.unseen_reason:
        _diagnose_archive(machine, node, output_format, everything=everything)
    subject = Subject(machine, node, partial(read_status, agent))
    try:
        view = inspect_node(subject, planned, Timeouts(lldp=listen))
    except (OSError, NetlinkError) as error:
        refuse(f"cannot inspect this machine: {error}")
    diagnosis = diagnose([view])
    show(diagnosis, output_format, everything=everything)
    raise SystemExit(diagnosis.status)


def _diagnose_archive(machine: Machine, node: NodePlan, output_format: str, *, everything: bool) -> NoReturn:

    from trackbed.cli import archived
    from trackbed.cli.findings import show

    diagnosis = archived.diagnose(machine, node)
    show(
        diagnosis if output_format == "json" else archived.drop_skipped(diagnosis, machine.unseen_reason),
        output_format,
        everything=everything,
    )
    skipped = ", ".join(archived.list_skipped_steps(diagnosis, machine.unseen_reason))
    click.echo(f"not judged: {skipped}; {machine.unseen_reason}", err=True)
    raise SystemExit(diagnosis.status)
