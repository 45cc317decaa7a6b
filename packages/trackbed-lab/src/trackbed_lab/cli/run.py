"""`trackbed lab run`: all phases of a lab, with a report."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import output_option, refuse
from trackbed.cli.terminal import print_styled
from trackbed_lab.cli.session import (
    build_phase_printer,
    check_fault_id,
    exit_on_errors,
    fabric_option,
    read_fabric_source,
    run_in_sandbox,
)
from trackbed_lab.run_result import AS_PLANNED, NOT_AS_PLANNED, NOT_TESTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from trackbed_lab.lab_folder import LabFolder
    from trackbed_lab.run_result import Phase, RunResult


_REPORTED_NOT_TESTED = 4
"""The sandbox's status where a part could not be tested; it has a report, unlike NOT_TESTED of a lab that failed."""
_VERDICTS = {
    AS_PLANNED: ("as planned", "green"),
    NOT_AS_PLANNED: ("NOT as planned", "red"),
    _REPORTED_NOT_TESTED: ("not fully tested", "yellow"),
}


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
    """Set up a lab, attach pods, test reachability, inject a fault, diagnose and heal it, and write a report.

    Exits with 0 when all went as planned, with 1 when not, with 3 when the lab could not be built or a part could not
    be tested.

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
    report_phase = build_phase_printer(output_format)
    for phase in phases:
        report_phase(phase)
    status = run_in_sandbox(
        folder, lambda: _write_report(_run_lab(folder, fabric, fault_id, phases, report_phase), report, output_format)
    )
    end = time.monotonic()
    folder.release()
    if output_format == "text" and status in _VERDICTS:
        verdict, colour = _VERDICTS[status]
        click.echo(f"report: {report.absolute()}")
        summary = f"{verdict}, {end - start:.1f} s, nothing left behind"
        print_styled(click.style(summary, bold=True, fg=colour))
    raise SystemExit(NOT_TESTED if status == _REPORTED_NOT_TESTED else status)


def _run_lab(
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
    """Write the report; return the status of the sandbox."""
    from trackbed.cli.options import emit_json
    from trackbed_lab.report.html import render_html

    report.write_text(render_html(result), encoding="utf-8")
    if output_format == "json":
        emit_json(result)
    return _REPORTED_NOT_TESTED if result.exit_status == NOT_TESTED else result.exit_status
