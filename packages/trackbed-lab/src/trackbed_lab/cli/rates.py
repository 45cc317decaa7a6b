"""`trackbed lab rates`: slow ports of a lab, named by a proof."""

from __future__ import annotations

import os
from importlib.resources import files
from typing import TYPE_CHECKING

import click

from trackbed_lab.cli.proof import run_screen
from trackbed_lab.cli.session import (
    build_phase_printer,
    exit_on_errors,
    fabric_option,
    read_fabric_source,
    run_in_sandbox,
)
from trackbed_lab.run_result import AS_PLANNED, NOT_AS_PLANNED

if TYPE_CHECKING:
    from trackbed.fabric.plan.plan import Plan
    from trackbed.prove.report import ProofReport


@click.command("rates")
@fabric_option
@click.option("--slow", default=4, show_default=True, type=click.IntRange(min=0), help="Number of slow ports.")
@click.option("--seed", default=1, show_default=True, help="Chooses the slow ports.")
def rates(source: str | None, slow: int, seed: int) -> None:
    """Cap all ports of a lab at the Fabric's rate, some at less, and let `trackbed prove` name these by their rates.

    Without -f these are 64 nodes with 8 rails, which takes some minutes on two cores. Network namespaces have no RDMA,
    so the rates are of TCP. Exits with 0 when each slow port is named and nothing else, with 1 when not.

    \b
    Examples:
      trackbed lab rates
      trackbed lab rates -f fabric.yaml --slow 2 --seed 7
    """
    from trackbed_lab.lab_folder import RUN_PREFIX, LabFolder

    fabric = read_fabric_source(source)[0] if source else files("trackbed_lab").joinpath("rates.yaml").read_bytes()
    folder = LabFolder(f"{RUN_PREFIX}{os.getpid()}")

    def run() -> int:
        from trackbed_lab.lab import Lab
        from trackbed_lab.rates import run_rates
        from trackbed_lab.run import LabRun

        lab_run = LabRun(Lab(folder.files), build_phase_printer("text"))
        is_good = exit_on_errors(lambda: run_rates(lab_run, fabric, slow, seed, _prove))
        return AS_PLANNED if is_good else NOT_AS_PLANNED

    status = run_in_sandbox(folder, run)
    folder.release()
    raise SystemExit(status)


def _prove(plan: Plan, launcher: tuple[str, ...]) -> ProofReport:
    from trackbed_lab.rates import RUNGS

    return run_screen(plan, RUNGS, launcher)
