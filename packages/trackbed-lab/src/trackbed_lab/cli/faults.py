"""`trackbed lab break`, `heal` and `doctor`: faults of a lab and their diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trackbed.cli.completion import complete_lab_fault
from trackbed.cli.options import output_option, refuse
from trackbed_lab.cli.session import check_fault_id, exit_on_errors, name_option, run_in_lab

if TYPE_CHECKING:
    from trackbed_lab.lab import Lab

_node = click.option("--node", "node_name", metavar="NAME", help="Where. Default: the first node.")
_rail = click.option("--rail", type=click.IntRange(min=0), help="On which rail. Default: 1.")


@click.command("break")
@name_option
@click.argument("fault_id", shell_complete=complete_lab_fault)
@_node
@_rail
def break_(name: str, fault_id: str, node_name: str | None, rail: int | None) -> None:
    """Inject a fault into the lab; `trackbed faults` lists the faults.

    \b
    Examples:
      trackbed lab break route-rule-missing
      trackbed lab break fabric-port-on-wrong-leaf --node gpu-1 --rail 3
    """
    check_fault_id(fault_id)
    raise SystemExit(run_in_lab(name, lambda lab: _inject_or_heal(lab, fault_id, node_name, rail, heal=False)))


@click.command("heal")
@name_option
@click.argument("fault_id", shell_complete=complete_lab_fault)
@_node
@_rail
def heal(name: str, fault_id: str, node_name: str | None, rail: int | None) -> None:
    """Heal a fault that `break` injected.

    \b
    Example:
      trackbed lab heal route-rule-missing
    """
    check_fault_id(fault_id)
    raise SystemExit(run_in_lab(name, lambda lab: _inject_or_heal(lab, fault_id, node_name, rail, heal=True)))


def _inject_or_heal(lab: Lab, fault_id: str, node_name: str | None, rail: int | None, *, heal: bool) -> int:
    from trackbed_lab import faults
    from trackbed_lab.faults.target import UnsuitableError

    try:
        target = faults.find_target(lab, node_name, rail)
        exit_on_errors(lambda: (faults.heal_fault if heal else faults.inject_fault)(target, fault_id))
    except UnsuitableError as error:
        refuse(str(error))
    click.echo(f"{'healed' if heal else 'broke'} {fault_id} at {target.node.name} rail {target.port.rail}")
    return 0


@click.command("doctor")
@name_option
@output_option("text", "json")
def doctor(name: str, output_format: str) -> None:
    """Diagnose all nodes of the lab. Exits with 0 if sound, 1 if broken, 3 if unknown.

    \b
    Example:
      trackbed lab doctor
    """
    raise SystemExit(run_in_lab(name, lambda lab: _diagnose_lab(lab, output_format)))


def _diagnose_lab(lab: Lab, output_format: str) -> int:
    from trackbed.cli.findings import print_diagnosis

    diagnosis = lab.diagnose()
    print_diagnosis(diagnosis, output_format)
    return diagnosis.exit_status
