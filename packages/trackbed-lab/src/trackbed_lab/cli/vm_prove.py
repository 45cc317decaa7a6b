"""`trackbed lab vm prove`: faults of emulated servers and their leaves, named by a proof."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import output_option, refuse
from trackbed_lab.cli.proof import run_screen
from trackbed_lab.cli.session import build_phase_printer
from trackbed_lab.cli.vm import folder_option, memory_option, start_servers
from trackbed_lab.cli.vm_run import derive_shape, exit_with_phases, load_plan
from trackbed_lab.processes import defer_signals

if TYPE_CHECKING:
    from pathlib import Path


@click.command("prove")
@click.option("-f", "--fabric", "source", metavar="FILE", help="A Fabric. Default: four servers with two rails.")
@folder_option
@memory_option
@click.option("--keep", is_flag=True, help="Leave the servers up: trackbed lab vm exec, down.")
@output_option("text", "json")
def prove(source: str | None, folder: Path, memory: int, keep: bool, output_format: str) -> None:
    """Cap all ports of emulated servers at a rate that they sustain, inject faults, and let `trackbed prove` name each.

    The faults: a slow port, a lossy port, a cable in the wrong leaf, a leaf MTU of 1500, a slow uplink, a missing GID.
    The whole ladder runs, RDMA by soft-RoCE. Then it runs over SSH, and while a worker, the command and a server are
    killed. Exits with 0 when all went as planned, with 1 when not, with 3 when this machine cannot run the servers. It
    takes some 20 minutes on two cores.

    \b
    Examples:
      trackbed lab vm prove
      trackbed lab vm prove --keep -o json
    """
    from trackbed_lab.run_result import Phase
    from trackbed_lab.vm import lab
    from trackbed_lab.vm.proof import find_lack, run_phases
    from trackbed_lab.vm.proof_command import PACKAGES
    from trackbed_lab.vm.run import begin_run

    start = time.monotonic()
    fabric, plan = load_plan(source, example_name="proof.yaml")
    if lack := find_lack(plan):
        refuse(f"{source or 'proof.yaml'}: {lack}")
    shape = derive_shape(plan, memory)
    vm_lab = start_servers(folder, shape, lab.UP_SECONDS, packages=PACKAGES, detached=keep)
    execute = (sys.executable, "-m", "trackbed", "lab", "vm", "exec", "--stdin", "--dir", str(folder), "%h", "--")
    try:
        shape = vm_lab.shape  # with its accelerator
        boot = Phase(
            "servers", time.monotonic() - start, f"{shape.servers} of {shape.rails} rails, {shape.accelerator}"
        )
        run = begin_run(vm_lab, plan, fabric, boot, build_phase_printer(output_format))
        phases = run_phases(run, lambda plan, rungs: run_screen(plan, rungs, execute))
    finally:
        if not keep:
            with defer_signals():
                lab.stop_lab(folder.absolute())
    exit_with_phases(phases, time.monotonic() - start, output_format)
