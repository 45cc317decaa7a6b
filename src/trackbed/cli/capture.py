"""`trackbed capture`: an archive of the files and program output that describe this machine."""

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
    """Write an archive that describes this machine, without secrets.

    The archive contains the parts of /sys, /proc and /etc that Trackbed reads, with their links, and the output of
    programs. Host name, MAC and PCI addresses are included; serial numbers, passwords, keys and tokens are not. Read it
    with `trackbed discover --root FILE` and `trackbed init FILE`; unpacked, it is a --root for diff and doctor. An
    existing file is never overwritten.

    \b
    Examples:
      trackbed capture
      trackbed capture -o gpu-0.tar.gz
    """
    from trackbed.cli.inventories import open_machine
    from trackbed.host.snapshot.archive import capture

    machine = open_machine(root)
    archive = output or Path(f"{_read_host_name(root)}.tar.gz")
    try:
        with os.fdopen(os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            capture_result = capture(machine, list_wanted(machine), stream)
    except FileExistsError:
        refuse(f"{archive} exists and is not overwritten; name another file with -o, or remove it")
    except OSError as error:
        refuse(f"cannot write {archive}: {error.strerror}")
    click.echo(f"{archive}: {capture_result.files} files, {capture_result.programs} programs")
    for path in capture_result.masked:
        click.echo(f"blanked a secret or serial number in {path}", err=True)
    for path in capture_result.withheld:
        click.echo(f"left out {path}: it never leaves a machine", err=True)


def list_wanted(machine: Machine) -> Wanted:
    """Return everything that commands read of a machine; programs are run for each of its ports."""
    from trackbed.doctor.checks import READS
    from trackbed.host.discover.wanted import WANTED
    from trackbed.host.snapshot.snapshot import Wanted
    from trackbed.host.snapshot.take import expand_ports, list_ports

    every = READS | WANTED
    programs = expand_ports(Wanted(commands=every.commands), list_ports(machine))
    return Wanted(_widen_patterns(every.files), _widen_patterns(every.links), _widen_patterns(every.folders)) | programs


def _widen_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(pattern.replace("{netdev}", "*").replace("{pci}", "*") for pattern in patterns)


def _read_host_name(root: Path) -> str:
    try:
        return (root / "proc/sys/kernel/hostname").read_text().strip().partition(".")[0] or "host"
    except OSError:
        return "host"
