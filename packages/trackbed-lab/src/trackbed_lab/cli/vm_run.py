"""`trackbed lab vm run`: from factory state to RDMA between pods, on emulated servers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from trackbed.cli.options import emit_json, output_option, read_with_lock, refuse
from trackbed.cli.terminal import print_styled
from trackbed_lab.cli.session import build_phase_printer, server_fabric_option
from trackbed_lab.cli.vm import folder_option, memory_option, start_servers
from trackbed_lab.processes import defer_signals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trackbed.fabric.plan.plan import Plan
    from trackbed_lab.run_result import Phase
    from trackbed_lab.vm.machine import LabShape


_MANAGERS = ("networkd", "netplan", "networkmanager", "ifupdown")


@click.command("run")
@server_fabric_option
@folder_option
@memory_option
@click.option(
    "--manager",
    type=click.Choice(_MANAGERS),
    help="Network manager of the servers, and a run that ends with --undo and another reboot instead of traffic.",
)
@click.option("--keep", is_flag=True, help="Leave the servers up: trackbed lab vm exec, down.")
@output_option("text", "json")
def run(source: str | None, folder: Path, memory: int, manager: str | None, keep: bool, output_format: str) -> None:
    """Take new servers from factory state to RDMA between pods: apply, a real reboot, apply again, doctor, traffic.

    Exits with 0 when all went as planned, with 1 when not, with 3 when this machine cannot run the servers.

    \b
    Examples:
      trackbed lab vm run
      trackbed lab vm run -f fabric.yaml --keep -o json
      trackbed lab vm run --manager netplan
    """
    from trackbed_lab.run_result import Phase
    from trackbed_lab.vm import lab, manager_run
    from trackbed_lab.vm.run import begin_run, run_phases

    start = time.monotonic()
    fabric, plan = load_plan(source)
    shape = derive_shape(plan, memory)
    # exits if another lab is running, which must be left alone
    vm_lab = start_servers(folder, shape, lab.UP_SECONDS, manager or "networkd", detached=keep)
    try:
        summary = (
            f"{shape.servers} servers of {shape.rails} igb NICs, Linux {vm_lab.kernel}, {vm_lab.shape.accelerator}"
        )
        boot, report = Phase("servers", time.monotonic() - start, summary), build_phase_printer(output_format)
        if manager:
            phases = manager_run.run_phases(begin_run(vm_lab, plan, fabric, boot, report), manager)
        else:
            phases = run_phases(vm_lab, plan, fabric, boot, report)
    finally:
        if not keep:
            with defer_signals():
                lab.stop_lab(folder.absolute())
    exit_with_phases(phases, time.monotonic() - start, output_format)


def exit_with_phases(phases: Sequence[Phase], elapsed_seconds: float, output_format: str) -> NoReturn:
    """Print the outcome of a run, and exit with 0 if all went as planned, else with 1."""
    ok = all(phase.ok for phase in phases)
    if output_format == "json":
        emit_json(phases)
    else:
        outcome = "as planned" if ok else "NOT as planned"
        summary = f"{outcome}, {elapsed_seconds:.0f} s"
        print_styled(click.style(summary, bold=True, fg="green" if ok else "red"))
    raise SystemExit(0 if ok else 1)


def derive_shape(plan: Plan, memory: int) -> LabShape:
    """Return the shape of the servers for a plan; exit with status 2 if they cannot be emulated."""
    from trackbed_lab.vm import run as vm
    from trackbed_lab.vm.machine import LabShape

    try:
        return vm.derive_shape(plan, LabShape(memory=memory, accelerator="auto"))
    except vm.UnfitError as error:
        refuse(str(error))


def load_plan(
    source: str | None, package: str = "trackbed_lab.vm", example_name: str = "example.yaml"
) -> tuple[bytes, Plan]:
    """Return a Fabric's bytes and its plan; without a source, those of an example for emulated servers."""
    from importlib.resources import as_file, files

    if source is not None:
        text, _, plan = read_with_lock(source)
        return text, plan
    with as_file(files(package).joinpath(example_name)) as example:
        text, _, plan = read_with_lock(str(example))
        return text, plan
