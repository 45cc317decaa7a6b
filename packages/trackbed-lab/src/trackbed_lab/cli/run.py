"""`trackbed lab run`: all phases of a lab, with a report."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import output_option, refuse
from trackbed_lab.cli.session import (
    build_reporter,
    check_fault_id,
    exit_on_errors,
    fabric_option,
    read_fabric_source,
    run_in_sandbox,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from trackbed_lab.lab_folder import LabFolder
    from trackbed_lab.run_result import Phase, RunResult


@click.command("run")
@fabric_option
@click.option("--break", "fault_id", default=None, metavar="ID", help="The fault to inject; none for no fault.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    default="report.html",
    show_default=True,
    help="The HTML page.",
)
@output_option("text", "json")
def run(source: str | None, fault_id: str | None, report: Path, output_format: str) -> None:
    """Set up, configure, attach, prove, break, diagnose, heal, report, remove.

    Exits with 0 when all went as planned, with 1 when not, with 3 when the lab could not be made.

    \b
    Examples:
      trackbed lab run
      trackbed lab run -f examples/spectrum-x-4 --report /tmp/report.html
      trackbed lab run -f fabric.yaml --break route-rule-missing -o json
    """
    from trackbed_lab.lab_folder import RUN_PREFIX, LabFolder

    if fault_id and fault_id != "none":
        check_fault_id(fault_id)
    if not os.access(report.absolute().parent, os.W_OK):
        refuse(f"cannot write {report.absolute()}; name a place for the report with --report")
    start = time.monotonic()
    fabric, phases = read_fabric_source(source)
    folder = LabFolder(f"{RUN_PREFIX}{os.getpid()}")
    report_phase = build_reporter(output_format)
    for phase in phases:
        report_phase(phase)
    status = run_in_sandbox(
        folder, lambda: _write_report(_run(folder, fabric, fault_id, phases, report_phase), report, output_format)
    )
    end = time.monotonic()
    folder.release()
    if output_format == "text" and status in {0, 1}:
        click.echo(f"report: {report.absolute()}")
        click.secho(
            f"{'as planned' if status == 0 else 'NOT as planned'}, {end - start:.1f} s, nothing left behind",
            bold=True,
            fg="green" if status == 0 else "red",
        )
    raise SystemExit(status)


def _run(
    folder: LabFolder,
    fabric: bytes,
    fault_id: str | None,
    phases: tuple[Phase, ...],
    report_phase: Callable[[Phase], None],
) -> RunResult:
    from trackbed_lab.lab import Lab
    from trackbed_lab.run import DEFAULT_FAULT, run_phases

    lab = Lab(folder.files)
    return exit_on_errors(lambda: run_phases(lab, fabric, fault_id or DEFAULT_FAULT, phases, report_phase))


def _write_report(result: RunResult, report: Path, output_format: str) -> int:
    """Write the report; return the exit status of the command."""
    from trackbed.cli.options import emit_json
    from trackbed_lab.report.html import render_html

    report.write_text(render_html(result), encoding="utf-8")
    if output_format == "json":
        emit_json(result)
    return 0 if result.ok else 1
