"""`trackbed lab up` and `down`: a lab that stays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import refuse
from trackbed_lab.cli.session import claimed, end, fabric_of, fabric_option, last_words, name_option

if TYPE_CHECKING:
    from trackbed_lab.lab_folder import LabFolder


@click.command("up")
@fabric_option
@name_option
@click.option("--pods/--no-pods", default=False, show_default=True, help="Start a pod with all rails on each node.")
def up(source: str | None, name: str, pods: bool) -> None:
    """Stand up a fabric that stays until `down`: hosts configured, agents serving.

    \b
    Examples:
      trackbed lab up
      trackbed lab up -f fabric.yaml --name site --pods
    """
    from trackbed_lab.lab_folder import LabFolder

    fabric, _ = fabric_of(source)
    place = LabFolder(name)
    reading, writing = os.pipe()
    claimed(place)
    from trackbed_lab.sandbox import start_sandbox

    keeper = start_sandbox(lambda: _stay(place, fabric, writing, pods=pods), place.files, place.log)
    place.record_keeper(keeper)
    os.close(writing)
    said = _answer(reading)
    if said != "up":
        end(keeper)
        said = said or f"the lab did not come up: {last_words(place)}"
        place.release()
        refuse(said)
    click.echo(f"lab {name!r} is up; trackbed lab status, exec, break, doctor, down")


_UP_SECONDS = 120.0


def _answer(reading: int) -> str:
    """What the lab says when it is up, or why it is not; empty if it died without a word or keeps silent."""
    import select

    ready, _, _ = select.select([reading], [], [], _UP_SECONDS)
    said = os.read(reading, 1 << 16).decode() if ready else ""
    os.close(reading)
    return said


def _stay(place: LabFolder, fabric: bytes, writing: int, *, pods: bool) -> int:
    import signal

    from trackbed_lab.lab import Lab

    lab = Lab(place.files)
    try:
        lab.build(fabric)
        lab.start_speaker()
        lab.apply()
        lab.start_agents()
        if pods:
            lab.add_pods()
    except Exception as error:  # noqa: BLE001 - told to whoever waits at the other end
        os.write(writing, f"the lab did not come up: {error}".encode())
        return 1
    os.write(writing, b"up")
    os.close(writing)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # pid 1 reaps what others leave
    while True:
        signal.pause()


@click.command("down")
@name_option
def down(name: str) -> None:
    """Remove the lab; also what a crash has left. Doing it twice is fine.

    \b
    Example:
      trackbed lab down
    """
    from trackbed_lab.lab_folder import LabFolder

    place = LabFolder(name)
    keeper = place.find_keeper()
    if keeper is not None:
        end(keeper)
    existed = place.folder.exists()
    place.release()
    click.echo(f"lab {name!r} is gone" if keeper is not None or existed else f"there is no lab {name!r}")
