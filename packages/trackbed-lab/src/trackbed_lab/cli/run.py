"""`trackbed lab run`: everything at once."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import output_option, refuse
from trackbed_lab.cli.session import fabric_of, fabric_option, guarded, held, known_fault, teller

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
def run(source: str | None, fault_id: str | None, report: Path, form: str) -> None:
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
        known_fault(fault_id)
    if not os.access(report.absolute().parent, os.W_OK):
        refuse(f"cannot write {report.absolute()}; name a place for the report with --report")
    began = time.monotonic()
    fabric, imported = fabric_of(source)
    place = LabFolder(f"{RUN_PREFIX}{os.getpid()}")
    told = teller(form)
    for phase in imported:
        told(phase)
    status = held(place, lambda: _finished(_run(place, fabric, fault_id, imported, told), report, form))
    gone = time.monotonic()
    place.release()
    if form == "text" and status in {0, 1}:
        click.echo(f"report: {report.absolute()}")
        click.secho(
            f"{'as planned' if status == 0 else 'NOT as planned'}, {gone - began:.1f} s, nothing left behind",
            bold=True,
            fg="green" if status == 0 else "red",
        )
    raise SystemExit(status)


def _run(
    place: LabFolder, fabric: bytes, fault_id: str | None, imported: tuple[Phase, ...], told: Callable[[Phase], None]
) -> RunResult:
    from trackbed_lab.lab import Lab
    from trackbed_lab.run import DEFAULT_FAULT
    from trackbed_lab.run import run_phases as go

    lab = Lab(place.files)
    return guarded(lambda: go(lab, fabric, fault_id or DEFAULT_FAULT, imported, told))


def _finished(result: RunResult, report: Path, form: str) -> int:
    """Write the report; the status of the command."""
    from trackbed.cli.options import emit_json
    from trackbed_lab.report.html import render_html

    report.write_text(render_html(result), encoding="utf-8")
    if form == "json":
        emit_json(result)
    return 0 if result.ok else 1
