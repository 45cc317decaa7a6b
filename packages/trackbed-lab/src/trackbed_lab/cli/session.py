"""What the commands of the lab share: which Fabric, which lab, and being inside its sandbox."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from trackbed.cli.options import meant, refuse

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


def _named(_: click.Context, __: click.Parameter, name: str) -> str:
    from trackbed_lab.lab_folder import LabFolder

    try:
        return LabFolder(name).name
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


name_option = click.option("--name", default="default", show_default=True, callback=_named, help="Name of the lab.")


def fabric_of(source: str | None) -> tuple[bytes, tuple[Phase, ...]]:
    """The Fabric's bytes (with its lock as a second document), and the phase that importing took."""
    from importlib.resources import files

    if source is None:
        return files("trackbed_lab").joinpath("example.yaml").read_bytes(), ()
    path = Path(source)
    if path.is_dir():
        return _imported(path)
    from trackbed.cli.options import read_with_lock

    return read_with_lock(source), ()


def _imported(folder: Path) -> tuple[bytes, tuple[Phase, ...]]:
    from trackbed.cli.import_ import import_folder
    from trackbed_lab.run_result import Phase

    began = time.monotonic()
    text, summary = import_folder(folder)
    return text, (Phase("import", time.monotonic() - began, summary),)


def claimed(place: LabFolder) -> None:
    """Make the lab's folder; a lab of that name that lives ends the command with status 2."""
    try:
        place.claim()
    except FileExistsError as error:
        refuse(f"{error}; trackbed lab down --name {place.name} removes it")
    except OSError as error:
        refuse(f"cannot make {error.filename or place.folder}: {error.strerror}")


def known_fault(fault_id: str) -> None:
    """A fault that is in no catalogue ends the command with status 2."""
    from trackbed_lab.faults import FAULTS

    if fault_id not in FAULTS:
        refuse(f"no fault {fault_id!r}{meant(fault_id, FAULTS, 'see trackbed faults')}")


def held(place: LabFolder, work: Callable[[], int]) -> int:
    """Run work in a sandbox of its own and wait for it; Ctrl-C or SIGTERM ends it, and with it everything."""
    import signal

    from trackbed_lab.sandbox import start_sandbox

    claimed(place)
    keeper = start_sandbox(work, place.files)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell that put us in the background has SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    place.record_keeper(keeper)
    try:
        _, status = os.waitpid(keeper, 0)
    except KeyboardInterrupt:
        end(keeper)
        place.release()
        click.echo("interrupted; the lab is gone", err=True)
        return 130
    return os.waitstatus_to_exitcode(status)


def joined(name: str, body: Callable[[Lab], int]) -> int:
    """Run `body` inside the sandbox of a lab; its status. A lab that is not there ends the command with status 2."""
    from trackbed_lab.lab import Lab
    from trackbed_lab.lab_folder import LabFolder, list_labs
    from trackbed_lab.sandbox import run_inside

    place = LabFolder(name)
    keeper = place.find_keeper()
    if keeper is None and place.folder.exists():
        refuse(f"lab {name!r} has ended: {last_words(place)}; trackbed lab down --name {name} clears it away")
    if keeper is None:
        alive = [lab.name for lab in list_labs() if lab.find_keeper()]
        others = f"there is {', '.join(alive)}" if alive else "trackbed lab up makes one"
        refuse(f"there is no lab {name!r}; {others}")
    try:
        return run_inside(keeper, lambda: guarded(lambda: body(Lab(place.files))))
    except OSError as error:
        refuse(f"cannot enter lab {name!r}: {error.strerror or error}")


_Result = TypeVar("_Result")


def guarded(work: Callable[[], _Result]) -> _Result:
    """Errors that a lab may end in, as one message and status 3: it could not be looked at."""
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


def end(keeper: int) -> None:
    """End a lab, and with it everything in it; waits (bounded) until it is gone."""
    import signal
    from contextlib import suppress

    from trackbed_lab.sandbox import find_first

    with suppress(OSError):
        os.kill(find_first(keeper), signal.SIGKILL)
    with suppress(OSError):
        os.kill(keeper, signal.SIGKILL)
    deadline = time.monotonic() + _END_SECONDS
    while not _is_gone(keeper) and time.monotonic() < deadline:
        time.sleep(0.01)


def _is_gone(keeper: int) -> bool:
    """Whether it has ended; if it is our own child it stays in /proc until we ask."""
    try:
        return os.waitpid(keeper, os.WNOHANG)[0] == keeper
    except ChildProcessError:
        return not Path(f"/proc/{keeper}").exists()


def last_words(place: LabFolder) -> str:
    """The end of a lab's log."""
    said = place.log.read_text(errors="replace").strip() if place.log.exists() else ""
    return " / ".join(said.splitlines()[-3:]) or "its log is empty"


def teller(form: str) -> Callable[[Phase], None]:
    """What tells each phase as it ends; nothing where the answer is for machines."""

    def tell(phase: Phase) -> None:
        mark = click.style("ok  " if phase.ok else "FAIL", fg="green" if phase.ok else "red", bold=True)
        click.echo(f"{mark} {phase.name:16} {phase.seconds:6.2f} s  {phase.summary}")
        sys.stdout.flush()

    return (lambda _: None) if form == "json" else tell
