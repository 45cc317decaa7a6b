"""`trackbed lab soak`: pods coming and going while faults are injected, and a census at the end."""

from __future__ import annotations

import os
import random
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import emit_json, exit_unknown, output_option
from trackbed.cli.terminal import escape_line, get_raw_stream, print_styled
from trackbed_lab.cli.session import run_in_sandbox

if TYPE_CHECKING:
    from trackbed_lab.lab_folder import LabFolder
    from trackbed_lab.soak.run import ProgramUsage, ReportProgress, SoakResult
    from trackbed_lab.soak.site import SoakPrograms

_CLEAR = "\r\033[K"
_LINE_SECONDS = 60.0
"""Interval of progress where output is no terminal."""


@click.command("soak")
@click.argument("minutes", type=click.FloatRange(min=0.1, max=24 * 60), default=60.0)
@click.option(
    "--chart",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="Trackbed's Helm chart, which has the definitions of its kinds.",
)
@click.option("--seed", type=int, help="Repeat the choices of an earlier soak. Default: a new seed, which is printed.")
@click.option(
    "--logs",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Copy the logs of all programs here at the end.",
)
@output_option("text", "json")
def soak(minutes: float, chart: Path, seed: int | None, logs: Path | None, output_format: str) -> None:
    """Let pods come and go for MINUTES while faults are injected, then count what is held twice, lost or left.

    A fabric in namespaces with real agents, a real API server with controllers and the webhook. Agents and controllers
    are killed, the API server goes away, disks fill up, clocks jump, namespaces vanish, requests are doubled. Exits
    with 0 when nothing was found, with 1 when something was, with 3 when the soak could not be run.

    \b
    Examples:
      trackbed lab soak 3 --chart charts/trackbed
      trackbed lab soak 60 --chart charts/trackbed --seed 4711 --logs /tmp/soak
    """
    from trackbed_lab.lab_folder import RUN_PREFIX, LabFolder

    programs = _prepare_programs(chart)
    chosen_seed = seed if seed is not None else random.randrange(1 << 31)  # noqa: S311 - a number to repeat a soak by
    click.echo(f"seed {chosen_seed}", err=output_format == "json")
    if logs is not None:
        logs.mkdir(parents=True, exist_ok=True)
    folder = LabFolder(f"{RUN_PREFIX}{os.getpid()}")
    work = partial(_run_soak, folder, programs, (minutes, chosen_seed), logs and logs.absolute(), output_format)
    status = run_in_sandbox(folder, work)
    folder.release()
    raise SystemExit(status)


def _prepare_programs(chart: Path) -> SoakPrograms:
    """Build or fetch what is not cached, before the sandbox exists. Exit with status 3 if that fails."""
    from trackbed_lab.cli.vm import report_progress
    from trackbed_lab.kubernetes import build, programs
    from trackbed_lab.kubernetes.crds import CrdError, read_definitions
    from trackbed_lab.soak.clock_library import ClockLibraryError, locate_clock_library
    from trackbed_lab.soak.site import SoakPrograms

    try:
        return SoakPrograms(
            build.build_programs(programs.CONTROL_PLANE, report_progress),
            build.build_programs(programs.SHIM, report_progress) / programs.SHIM[0].name,
            locate_clock_library(report_progress),
            read_definitions(chart / "files"),
        )
    except (build.BuildError, ClockLibraryError, CrdError) as error:
        exit_unknown(error)


def _run_soak(
    folder: LabFolder, programs: SoakPrograms, options: tuple[float, int], logs: Path | None, output_format: str
) -> int:
    """Run the soak inside its sandbox; return the exit status of the command."""
    from trackbed.cluster.api.errors import KubeError
    from trackbed_lab.cli.session import exit_on_errors
    from trackbed_lab.kubernetes.control_plane import ControlPlaneError
    from trackbed_lab.soak.record import SoakRecord
    from trackbed_lab.soak.run import SoakRun
    from trackbed_lab.soak.site import Site, SoakError

    minutes, seed = options
    site = Site(folder.files, programs, SoakRecord(_print_finding))
    try:
        exit_on_errors(site.build)
        result = SoakRun(site, minutes * 60, seed).run(_build_progress_printer(minutes * 60))
    except (SoakError, ControlPlaneError, KubeError) as error:
        exit_unknown(error)
    finally:
        if logs is not None:
            site.copy_logs(logs)
    emit_json(result) if output_format == "json" else _print_result(result)
    return 0 if result.ok else 1


def _build_progress_printer(seconds: float) -> ReportProgress:
    """Return a function that keeps one line of a terminal up to date; elsewhere it prints a line a minute."""
    interval = 0.5 if sys.stderr.isatty() else _LINE_SECONDS
    head, tail = (_CLEAR, "") if sys.stderr.isatty() else ("", "\n")
    due = time.monotonic()

    def report(elapsed: float, text: str) -> None:
        nonlocal due
        if time.monotonic() < due and elapsed < seconds:
            return
        due = time.monotonic() + interval
        spent = f"{elapsed // 60:.0f}:{elapsed % 60:02.0f} of {seconds / 60:g} min"
        get_raw_stream(err=True).write(f"{head}{spent}  {escape_line(text)}{tail}")
        get_raw_stream(err=True).flush()

    return report


def _print_result(result: SoakResult) -> None:
    click.echo(err=True)
    for name, number in result.counts.items():
        click.echo(f"{number:>9}  {name}")
    click.echo(f"{result.generations:>9}  generations of the Fabric rolled out")
    click.echo(f"{result.retries:>9}  nodes failed by a time limit and were retried")
    click.echo(f"{'PROGRAM':18}{'PSS MiB':>9}{'PRIVATE':>9}{'FDS':>6}{'THREADS':>9}  PSS OF SIXTH 2 AND 6")
    for program in result.programs:
        click.echo(
            f"{program.name:18}{program.pss_mib:>9.1f}{program.private_mib:>9.1f}{program.descriptors:>6}"
            f"{program.threads:>9}  {_describe_growth(program)}"
        )
    verdict = f"{result.counts['findings']} findings" if result.findings else "nothing held twice, lost or left"
    colour = "red" if result.findings else "green"
    summary = f"{verdict}, {result.seconds / 60:.1f} min, seed {result.seed}"
    print_styled(click.style(summary, fg=colour, bold=True))


def _print_finding(finding: str) -> None:
    clear = _CLEAR if sys.stderr.isatty() else ""
    print_styled(f"{clear}{click.style('found', fg='red', bold=True)}  {escape_line(finding)}", err=True)


def _describe_growth(program: ProgramUsage) -> str:
    if program.killed:
        return "was killed"
    if program.pss_early_mib is None or program.pss_late_mib is None:
        return "too few samples"
    growth = program.pss_late_mib / program.pss_early_mib - 1
    return f"{program.pss_early_mib:.2f}, {program.pss_late_mib:.2f}: {growth:+.1%}"
