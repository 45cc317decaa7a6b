"""Shared parts of the lab's commands: options for Fabric and lab, execution inside a sandbox, and output of phases."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trackbed.cli.ending import get_status_of_interrupt, run_to_end
from trackbed.cli.options import check_name, exit_unknown, refuse
from trackbed.cli.terminal import escape_line, print_styled
from trackbed_lab.processes import defer_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trackbed_lab.lab import Lab
    from trackbed_lab.lab_folder import LabFolder
    from trackbed_lab.run_result import Phase

_Command = TypeVar("_Command", bound="Callable[..., Any]")


def _build_fabric_option(default: str) -> Callable[[_Command], _Command]:
    text = f"A Fabric, or a folder of netplan files. Default: {default}."
    return click.option("-f", "--fabric", "source", metavar="FILE|DIR", help=text)


fabric_option = _build_fabric_option("an example of 4 nodes")
server_fabric_option = _build_fabric_option("two servers with 8 rails")
"""-f of commands whose nodes are emulated servers."""


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

    return read_with_lock(source)[0], ()


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
    from trackbed.cli.faults import list_labs
    from trackbed.doctor.catalogue import load_catalogue
    from trackbed_lab.faults import FAULTS

    if fault_id in load_catalogue() and fault_id not in FAULTS:
        servers = f"emulated servers break it: trackbed lab vm break node-0 {fault_id}"
        where = servers if "servers" in (list_labs(fault_id) or ()) else "no lab can break it"
        refuse(f"{fault_id} cannot be broken in namespaces; {where}")
    check_name(fault_id, FAULTS, "fault", "see trackbed faults")


def run_in_sandbox(lab: LabFolder, work: Callable[[], int]) -> int:
    """Run `work` in a new sandbox and return its status; a signal ends the sandbox with everything in it."""
    import signal

    from trackbed_lab.sandbox import start_sandbox

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores SIGINT for background processes
    with remove_if_interrupted(lab):
        claim_lab(lab)
        with defer_signals():
            keeper = start_sandbox(lambda: run_to_end(lambda: _leave_report_to_caller(work)), lab.files)
            lab.record_keeper(keeper)
        _, status = os.waitpid(keeper, 0)
    return os.waitstatus_to_exitcode(status)


def _leave_report_to_caller(work: Callable[[], int]) -> int:
    """Run `work`. If a signal of the terminal interrupts it, end silently, for the command has received it too."""
    try:
        return work()
    except KeyboardInterrupt as interrupt:
        raise SystemExit(get_status_of_interrupt(interrupt)) from interrupt


@contextmanager
def remove_if_interrupted(lab: LabFolder) -> Iterator[None]:
    """Remove a lab and everything in it if a signal ends the block; exit with the status of the signal."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        with defer_signals():
            keeper = lab.find_keeper()
            if keeper is not None and keeper != os.getpid():
                kill_lab(keeper)
            lab.release()
        click.echo("interrupted; the lab is gone", err=True)
        raise SystemExit(get_status_of_interrupt(interrupt)) from interrupt


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

    def run_body() -> int:
        lab = Lab(folder.files)
        if not lab.is_built:
            exit_unknown(f"lab {name!r} is still being set up; try again in some seconds")
        return exit_on_errors(lambda: body(lab))

    try:
        return run_inside(keeper, lambda: run_to_end(run_body))
    except OSError as error:
        refuse(f"cannot enter lab {name!r}: {error.strerror or error}")


_Result = TypeVar("_Result")


def exit_on_errors(work: Callable[[], _Result]) -> _Result:
    """Return the result of `work`. Print an error of a lab and exit with status 3."""
    from trackbed.host.transaction.apply import HostError
    from trackbed.kernel.netlink.codec import NetlinkError
    from trackbed_lab.lab import LabError
    from trackbed_lab.runtime import CniCallError

    try:
        return work()
    except (HostError, LabError, CniCallError, NetlinkError, OSError) as error:
        exit_unknown(error)


_END_SECONDS = 10.0


def kill_lab(keeper: int) -> None:
    """Kill a lab with everything in it; wait, at most 10 s, until it has ended."""
    import signal
    from contextlib import suppress

    from trackbed_lab.sandbox import find_first_process

    with suppress(OSError):
        os.kill(find_first_process(keeper), signal.SIGKILL)
    with suppress(OSError):
        os.kill(keeper, signal.SIGKILL)
    deadline = time.monotonic() + _END_SECONDS
    while not _has_ended(keeper) and time.monotonic() < deadline:
        time.sleep(0.01)


def _has_ended(keeper: int) -> bool:
    """Return whether the keeper has ended. Reap it if it is a child, which would otherwise remain in /proc."""
    try:
        return os.waitpid(keeper, os.WNOHANG)[0] == keeper
    except ChildProcessError:
        return not Path(f"/proc/{keeper}").exists()


def read_log_end(lab: LabFolder) -> str:
    """Return the last lines of a lab's log."""
    text = lab.log.read_text(errors="replace").strip() if lab.log.exists() else ""
    return " / ".join(text.splitlines()[-3:]) or "its log is empty"


_MARKS = {True: ("ok  ", "green"), False: ("FAIL", "red"), None: ("?   ", "yellow")}
"""The mark of a phase, and its colour, by its outcome."""


def build_phase_printer(output_format: str) -> Callable[[Phase], None]:
    """Return a function that prints each phase as it ends; with JSON output, to standard error."""

    def report(phase: Phase) -> None:
        text, colour = _MARKS[phase.ok]
        mark = click.style(text, fg=colour, bold=True)
        line = f"{mark} {phase.name:16} {phase.seconds:6.2f} s  {escape_line(phase.summary)}"
        print_styled(line, err=output_format == "json")

    return report
