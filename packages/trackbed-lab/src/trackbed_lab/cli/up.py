"""`trackbed lab up` and `down`: a lab that runs in the background."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import refuse
from trackbed_lab.cli.session import (
    claim_lab,
    fabric_option,
    kill_lab,
    name_option,
    read_fabric_source,
    read_log_end,
    remove_if_interrupted,
)
from trackbed_lab.processes import defer_signals

if TYPE_CHECKING:
    from trackbed_lab.lab_folder import LabFolder


@click.command("up")
@fabric_option
@name_option
@click.option("--pods/--no-pods", default=False, show_default=True, help="Start a pod with all rails on each node.")
def up(source: str | None, name: str, pods: bool) -> None:
    """Start a lab that runs until `down`, with configured hosts and running agents.

    \b
    Examples:
      trackbed lab up
      trackbed lab up -f fabric.yaml --name site --pods
    """
    from trackbed_lab.lab_folder import LabFolder

    fabric, _ = read_fabric_source(source)
    folder = LabFolder(name)
    claim_lab(folder)
    with remove_if_interrupted(folder):
        _start_lab(folder, fabric, pods=pods)
    click.echo(f"lab {name!r} is up; trackbed lab status, exec, break, doctor, down")


def _start_lab(folder: LabFolder, fabric: bytes, *, pods: bool) -> None:
    """Start a lab and wait until it is up; exit with status 2 if it does not come up."""
    from trackbed_lab.sandbox import start_sandbox

    read_end, write_end = os.pipe()
    with defer_signals():
        keeper = start_sandbox(lambda: _run_lab(folder, fabric, write_end, pods=pods), folder.files, folder.log)
        folder.record_keeper(keeper)
    os.close(write_end)
    message = _read_message(read_end)
    if message != "up":
        kill_lab(keeper)
        message = message or f"the lab did not come up: {read_log_end(folder)}"
        folder.release()
        refuse(message)


_UP_SECONDS = 120.0


def _read_message(read_end: int) -> str:
    """Return the lab's message: "up", or why it failed, or "" if it ended or timed out without a message."""
    import select

    ready, _, _ = select.select([read_end], [], [], _UP_SECONDS)
    message = os.read(read_end, 1 << 16).decode() if ready else ""
    os.close(read_end)
    return message


def _run_lab(folder: LabFolder, fabric: bytes, write_end: int, *, pods: bool) -> int:
    """Build the lab, write a message to the pipe, then wait until killed."""
    import signal

    from trackbed_lab.lab import Lab

    lab = Lab(folder.files)
    try:
        lab.build(fabric)
        lab.start_speaker()
        lab.apply()
        lab.start_agents()
        if pods:
            lab.add_pods()
    except Exception as error:  # noqa: BLE001 - passed to the command through the pipe
        os.write(write_end, f"the lab did not come up: {error}".encode())
        return 1
    os.write(write_end, b"up")
    os.close(write_end)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as PID 1 this process has to reap orphans
    while True:
        signal.pause()


@click.command("down")
@name_option
def down(name: str) -> None:
    """Remove the lab, or the remains of a crashed one. Running it again is safe.

    \b
    Example:
      trackbed lab down
    """
    from trackbed_lab.lab_folder import LabFolder

    folder = LabFolder(name)
    keeper = folder.find_keeper()
    if keeper is not None:
        kill_lab(keeper)
    existed = folder.folder.exists()
    folder.release()
    click.echo(f"lab {name!r} is gone" if keeper is not None or existed else f"there is no lab {name!r}")
