"""`trackbed capture`: what this machine says of itself, as an archive to take along."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import refuse

if TYPE_CHECKING:
    from trackbed.host.machine import Machine
    from trackbed.host.snapshot.snapshot import Wanted


@click.command("capture")
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default="/",
    show_default=True,
    help="Folder that holds the machine's files; /host in a container.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write. Default: HOST.tar.gz here.",
)
def command(root: Path, output: Path | None) -> None:
    """Write what this machine says of itself into an archive, without secrets.

    The archive holds the parts of /sys, /proc and /etc that Trackbed reads, with their links, and what programs said.
    Host name, MAC and PCI addresses stay in; serial numbers, passwords, keys and tokens do not. Others read it with
    `trackbed discover --root FILE` and `trackbed init FILE`; unpacked, it is a --root for diff and doctor. An existing
    file is never overwritten.

    \b
    Examples:
      trackbed capture
      trackbed capture -o gpu-0.tar.gz
    """
    from trackbed.cli.inventories import machine_below
    from trackbed.host.snapshot.archive import capture

    machine = machine_below(root)
    place = output or Path(f"{_host(root)}.tar.gz")
    try:
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            done = capture(machine, wanted(machine), stream)
    except FileExistsError:
        refuse(f"{place} exists and is left as it is; name another file with -o, or remove it")
    except OSError as error:
        refuse(f"cannot write {place}: {error.strerror}")
    click.echo(f"{place}: {done.files} files, {done.programs} programs")
    for path in done.masked:
        click.echo(f"blanked a secret or serial number in {path}", err=True)
    for path in done.withheld:
        click.echo(f"left out {path}: it never leaves a machine", err=True)


def wanted(machine: Machine) -> Wanted:
    """Everything that any command reads of a machine; programs are asked about each port that it has."""
    from trackbed.doctor.checks import READS
    from trackbed.host.discover.wanted import WANTED
    from trackbed.host.snapshot.snapshot import Wanted
    from trackbed.host.snapshot.take import expand_ports, list_ports

    every = READS | WANTED
    programs = expand_ports(Wanted(commands=every.commands), list_ports(machine))
    return Wanted(_anywhere(every.files), _anywhere(every.links), _anywhere(every.folders)) | programs


def _anywhere(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(pattern.replace("{netdev}", "*").replace("{pci}", "*") for pattern in patterns)


def _host(root: Path) -> str:
    try:
        return (root / "proc/sys/kernel/hostname").read_text().strip().partition(".")[0] or "host"
    except OSError:
        return "host"
