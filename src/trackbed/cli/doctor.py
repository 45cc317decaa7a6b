"""`trackbed doctor`: what is broken on this host, why, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from trackbed.cli.machine import machine_options
from trackbed.cli.options import node_of, node_option, output_option, plan_option, read_plan, refuse

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
    help="Seconds to listen for LLDP. Leaves speak every 30 s: with 31 or more, silence is a finding.",
)
@click.option("--all", "everything", is_flag=True, help="Show what passed, too.")
@output_option("text", "json")
def command(
    fabric_file: str,
    node_name: str | None,
    root: Path,
    netns: Path | None,
    agent: Path,
    listen: float,
    everything: bool,
    form: str,
) -> None:
    """Walk the chain and name the first link that is broken.

    Looks at kernel, files, pods and what answers on the rails; changes nothing. Of an unpacked archive of `trackbed
    capture`, given with --root, it judges files and recorded programs; its network stays unknown. Exits with 0 when
    sound, 1 when something is broken, 3 when something could not be looked at.

    \b
    Examples:
      trackbed doctor -f fabric.yaml
      trackbed doctor -f fabric.yaml --listen 31 -o json
      trackbed doctor -f fabric.yaml --root gpu-0 --node gpu-0
    """
    from functools import partial

    from trackbed.cli.findings import show
    from trackbed.cli.inventories import machine_below
    from trackbed.doctor.diagnosis import diagnose
    from trackbed.doctor.inspection import Subject, inspect_node
    from trackbed.doctor.probes import Timeouts
    from trackbed.kernel.netlink.codec import NetlinkError
    from trackbed.node.rails.client import read_status

    planned = read_plan(fabric_file)
    machine, node = machine_below(root, netns), node_of(planned, node_name)
    if machine.unseen_reason:
        _archived(machine, node, form, everything=everything)
    subject = Subject(machine, node, partial(read_status, agent))
    try:
        view = inspect_node(subject, planned, Timeouts(lldp=listen))
    except (OSError, NetlinkError) as error:
        refuse(f"cannot look at this machine: {error}")
    diagnosis = diagnose([view])
    show(diagnosis, form, everything=everything)
    raise SystemExit(diagnosis.status)


def _archived(machine: Machine, node: NodePlan, form: str, *, everything: bool) -> NoReturn:

    from trackbed.cli import archived
    from trackbed.cli.findings import show

    found = archived.diagnose(machine, node)
    show(found if form == "json" else archived.without(found, machine.unseen_reason), form, everything=everything)
    click.echo(
        f"not judged: {', '.join(archived.steps(found, machine.unseen_reason))}; {machine.unseen_reason}", err=True
    )
    raise SystemExit(found.status)
