"""`trackbed lab break`, `heal` and `doctor`: practise on a lab."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trackbed.cli.options import output_option, refuse
from trackbed_lab.cli.session import check_fault_id, exit_on_errors, name_option, run_in_lab

if TYPE_CHECKING:
    from trackbed_lab.lab import Lab

_node = click.option("--node", "node_name", metavar="NAME", help="Where. Default: the first node.")
_rail = click.option("--rail", type=click.IntRange(min=0), help="On which rail. Default: 1.")


@click.command("break")
@name_option
@click.argument("fault_id")
@_node
@_rail
def break_(name: str, fault_id: str, node_name: str | None, rail: int | None) -> None:
    """Break one link of the chain; `trackbed faults` lists which.

    \b
    Examples:
      trackbed lab break route-rule-missing
      trackbed lab break fabric-port-on-wrong-leaf --node gpu-1 --rail 3
    """
    raise SystemExit(run_in_lab(name, lambda lab: _run_action(lab, fault_id, node_name, rail, heal=False)))


@click.command("heal")
@name_option
@click.argument("fault_id")
@_node
@_rail
def heal(name: str, fault_id: str, node_name: str | None, rail: int | None) -> None:
    """Undo a fault that `break` has made.

    \b
    Example:
      trackbed lab heal route-rule-missing
    """
    raise SystemExit(run_in_lab(name, lambda lab: _run_action(lab, fault_id, node_name, rail, heal=True)))


def _run_action(lab: Lab, fault_id: str, node_name: str | None, rail: int | None, *, heal: bool) -> int:
    from trackbed_lab import faults
    from trackbed_lab.faults.target import UnsuitableError

    check_fault_id(fault_id)
    try:
        target = faults.find_target(lab, node_name, rail)
        exit_on_errors(lambda: (faults.heal if heal else faults.inject)(target, fault_id))
    except UnsuitableError as error:
        refuse(str(error))
    click.echo(f"{'healed' if heal else 'broke'} {fault_id} at {target.node.name} rail {target.port.rail}")
    return 0


@click.command("doctor")
@name_option
@output_option("text", "json")
def doctor(name: str, output_format: str) -> None:
    """Diagnose all nodes of the lab. Exit 0 sound, 1 broken, 3 unknown.

    \b
    Example:
      trackbed lab doctor
    """
    raise SystemExit(run_in_lab(name, lambda lab: _diagnose(lab, output_format)))


def _diagnose(lab: Lab, output_format: str) -> int:
    from trackbed.cli.findings import show

    diagnosis = lab.diagnose()
    show(diagnosis, output_format)
    return diagnosis.status
