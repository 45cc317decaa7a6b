"""Shared parts of the lab's commands: options for Fabric and lab, running inside a sandbox, and reporting of phases."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from trackbed.cli.options import refuse, suggest

if TYPE_CHECKING:
    from collections.abc import Callable

    from trackbed_lab.lab import Lab
    from trackbed_lab.lab_folder import LabFolder
    from trackbed_lab.run_result import Phase

fabric_option = click.option(
    "-f",
    "--fabric",
    "source",
    metavar="FILE|DIR",
    help="A Fabric, or a folder of netplan files. Default: an example of 4 nodes.",
)


def _check_name(_: click.Context, __: click.Parameter, name: str) -> str:
    from trackbed_lab.lab_folder import LabFolder

    try:
        return LabFolder(name).name
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


name_option = click.option(
    "--name", default="default", show_default=True, callback=_check_name, help="Name of the lab."
)


def read_fabric_source(source: str | None) -> tuple[bytes, tuple[Phase, ...]]:
    """Return a Fabric's bytes (with its lock as a second document), and the phase of its import, if it was imported."""
    from importlib.resources import files

    if source is None:
        return files("trackbed_lab").joinpath("example.yaml").read_bytes(), ()
    path = Path(source)
    if path.is_dir():
        return _import_folder(path)
    from trackbed.cli.options import read_with_lock

    return read_with_lock(source), ()


def _import_folder(folder: Path) -> tuple[bytes, tuple[Phase, ...]]:
    from trackbed.cli.import_ import import_folder
    from trackbed_lab.run_result import Phase

    start = time.monotonic()
    text, summary = import_folder(folder)
    return text, (Phase("import", time.monotonic() - start, summary),)


def claim_lab(lab: LabFolder) -> None:
    """Create the lab's folder; exit with status 2 if a lab of that name is running."""
    try:
        lab.claim()
    except FileExistsError as error:
        refuse(f"{error}; trackbed lab down --name {lab.name} removes it")
    except OSError as error:
        refuse(f"cannot make {error.filename or lab.folder}: {error.strerror}")


def check_fault_id(fault_id: str) -> None:
    """Exit with status 2 if the lab has no such fault."""
    from trackbed_lab.faults import FAULTS

    if fault_id not in FAULTS:
        refuse(f"no fault {fault_id!r}{suggest(fault_id, FAULTS, 'see trackbed faults')}")


def run_in_sandbox(lab: LabFolder, work: Callable[[], int]) -> int:
    """Run work in a new sandbox and return its status; Ctrl-C or SIGTERM ends the sandbox with everything in it."""
    import signal

    from trackbed_lab.sandbox import start_sandbox

    claim_lab(lab)
    keeper = start_sandbox(work, lab.files)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell ignores SIGINT for background processes
        signal.signal(number, signal.default_int_handler)
    lab.record_keeper(keeper)
    try:
        _, status = os.waitpid(keeper, 0)
    except KeyboardInterrupt:
        kill_lab(keeper)
        lab.release()
        click.echo("interrupted; the lab is gone", err=True)
        return 130
    return os.waitstatus_to_exitcode(status)


def run_in_lab(name: str, body: Callable[[Lab], int]) -> int:
    """Run `body` inside the sandbox of a lab and return its status; exit with status 2 if there is no such lab."""
    from trackbed_lab.lab import Lab
    from trackbed_lab.lab_folder import LabFolder, list_labs
    from trackbed_lab.sandbox import run_inside

    folder = LabFolder(name)
    keeper = folder.find_keeper()
    if keeper is None and folder.folder.exists():
        refuse(f"lab {name!r} has ended: {read_log_end(folder)}; trackbed lab down --name {name} clears it away")
    if keeper is None:
        running = [lab.name for lab in list_labs() if lab.find_keeper()]
        others = f"there is {', '.join(running)}" if running else "trackbed lab up makes one"
        refuse(f"there is no lab {name!r}; {others}")
    try:
        return run_inside(keeper, lambda: exit_on_errors(lambda: body(Lab(folder.files))))
    except OSError as error:
        refuse(f"cannot enter lab {name!r}: {error.strerror or error}")


_Result = TypeVar("_Result")


def exit_on_errors(work: Callable[[], _Result]) -> _Result:
    """Run work; print the errors of a lab as one message and exit with status 3."""
    from trackbed.host.transaction.apply import HostError
    from trackbed.kernel.netlink.codec import NetlinkError
    from trackbed_lab.lab import LabError
    from trackbed_lab.runtime import CniCallError

    try:
        return work()
    except (HostError, LabError, CniCallError, NetlinkError, OSError) as error:
        click.echo(f"trackbed: {error}", err=True)
        raise SystemExit(3) from error


_END_SECONDS = 10.0


def kill_lab(keeper: int) -> None:
    """Kill a lab with everything in it; wait, at most 10 s, until it has ended."""
    import signal
    from contextlib import suppress

    from trackbed_lab.sandbox import find_first

    with suppress(OSError):
        os.kill(find_first(keeper), signal.SIGKILL)
    with suppress(OSError):
        os.kill(keeper, signal.SIGKILL)
    deadline = time.monotonic() + _END_SECONDS
    while not _has_ended(keeper) and time.monotonic() < deadline:
        time.sleep(0.01)


def _has_ended(keeper: int) -> bool:
    """Return whether the keeper has ended; a child is reaped, as it would remain in /proc."""
    try:
        return os.waitpid(keeper, os.WNOHANG)[0] == keeper
    except ChildProcessError:
        return not Path(f"/proc/{keeper}").exists()


def read_log_end(lab: LabFolder) -> str:
    """Return the end of a lab's log."""
    text = lab.log.read_text(errors="replace").strip() if lab.log.exists() else ""
    return " / ".join(text.splitlines()[-3:]) or "its log is empty"


def build_reporter(output_format: str) -> Callable[[Phase], None]:
    """Return a function that prints each phase as it ends; with JSON output it prints nothing."""

    def report(phase: Phase) -> None:
        mark = click.style("ok  " if phase.ok else "FAIL", fg="green" if phase.ok else "red", bold=True)
        click.echo(f"{mark} {phase.name:16} {phase.seconds:6.2f} s  {phase.summary}")
        sys.stdout.flush()

    return (lambda _: None) if output_format == "json" else report
