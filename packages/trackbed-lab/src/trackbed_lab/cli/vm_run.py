"""`trackbed lab vm run`: from factory state to RDMA between pods, on emulated servers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from trackbed.cli.options import emit_json, output_option, read_fabric, read_with_lock, refuse
from trackbed_lab.cli.session import build_reporter, fabric_option
from trackbed_lab.cli.vm import folder_option, memory_option, start_servers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trackbed.fabric.plan.plan import Plan
    from trackbed_lab.run_result import Phase
    from trackbed_lab.vm.machine import LabShape


@click.command("run")
@fabric_option
@folder_option
@memory_option
@click.option("--keep", is_flag=True, help="Leave the servers up: trackbed lab vm exec, down.")
@output_option("text", "json")
def run(source: str | None, folder: Path, memory: int, keep: bool, output_format: str) -> None:
    """Take new servers from factory state to RDMA between pods: apply, a real reboot, apply again, doctor, traffic.

    Without -f: two servers with 8 rails. Exits with 0 when all went as planned, with 1 when not, with 3 when there can
    be no servers here.

    \b
    Examples:
      trackbed lab vm run
      trackbed lab vm run -f fabric.yaml --keep -o json
    """
    from trackbed_lab.run_result import Phase
    from trackbed_lab.vm import lab
    from trackbed_lab.vm.run import run_phases

    start = time.monotonic()
    fabric, plan = load_plan(source)
    shape = derive_shape(plan, memory)
    vm_lab = start_servers(folder, shape, lab.UP_SECONDS)  # exits if another lab is running, which must be left alone
    try:
        summary = (
            f"{shape.servers} servers of {shape.rails} igb NICs, Linux {vm_lab.kernel}, {vm_lab.shape.accelerator}"
        )
        phases = run_phases(
            vm_lab, plan, fabric, Phase("servers", time.monotonic() - start, summary), build_reporter(output_format)
        )
    finally:
        if not keep:
            lab.stop_lab(folder.absolute())
    exit_with_phases(phases, time.monotonic() - start, output_format)


def exit_with_phases(phases: Sequence[Phase], seconds: float, output_format: str) -> NoReturn:
    """Print the outcome of a run, and exit with 0 if all went as planned, else with 1."""
    ok = all(phase.ok for phase in phases)
    if output_format == "json":
        emit_json(phases)
    else:
        outcome = "as planned" if ok else "NOT as planned"
        click.secho(f"{outcome}, {seconds:.0f} s", bold=True, fg="green" if ok else "red")
    raise SystemExit(0 if ok else 1)


def derive_shape(plan: Plan, memory: int) -> LabShape:
    """Return the shape of the servers for a plan; exit with status 2 if they cannot be emulated."""
    from trackbed_lab.vm import run as vm
    from trackbed_lab.vm.machine import LabShape

    try:
        return vm.derive_shape(plan, LabShape(memory=memory, accelerator="auto"))
    except vm.UnfitError as error:
        refuse(str(error))


def load_plan(source: str | None) -> tuple[bytes, Plan]:
    """Return a Fabric's bytes and its plan; without a source, those of the example for emulated servers."""
    from importlib.resources import as_file, files

    if source is not None:
        return read_with_lock(source), read_fabric(source)[1]
    with as_file(files("trackbed_lab.vm").joinpath("example.yaml")) as example:
        return example.read_bytes(), read_fabric(str(example))[1]
