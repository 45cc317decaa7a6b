"""`trackbed capture`: an archive of the files and program output that describe this machine."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import refuse, refuse_output_option
from trackbed.fabric.counts import format_count

if TYPE_CHECKING:
    from trackbed.host.machine import Machine
    from trackbed.host.snapshot.snapshot import Wanted

_KEY_BYTES = 16
_PROCESSES = "/proc/[0-9]*"


@click.command("capture")
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default="/",
    show_default=True,
    help="Folder that holds the machine's files; /host in a container.",
)
@click.option(
    "--to",
    "output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write. Default: capture.tar.gz here; with --identified HOST.tar.gz.",
)
@refuse_output_option
@click.option(
    "--identified",
    is_flag=True,
    help="Keep names, addresses and MACs: for `init` and `diff` at your own site. Do not send such an archive.",
)
def command(root: Path, output: Path | None, identified: bool) -> None:
    """Write an archive that describes this machine and may be sent to others.

    The archive contains the parts of /sys, /proc and /etc that Trackbed reads, with their links, and the output of
    programs. Secrets are masked. Names, addresses and serial numbers are replaced: equal ones stay equal, and nothing
    leads back. Programs get two minutes, the files 64 MiB before compression. Read it with `trackbed discover --root
    FILE`; unpacked, it is a --root for diff and doctor. An existing file is never overwritten.

    \b
    Examples:
      trackbed capture
      trackbed capture --to machine.tar.gz
      trackbed capture --identified --to gpu-0.tar.gz
    """
    import secrets

    from trackbed.cli.inventories import open_machine
    from trackbed.host.snapshot.capture import capture

    machine = _limit_programs(open_machine(root))
    key = None if identified else secrets.token_bytes(_KEY_BYTES)
    archive = output or Path(f"{_read_host_name(root) if identified else 'capture'}.tar.gz")
    try:
        with os.fdopen(os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            capture_result = capture(machine, build_wanted(machine), stream, key)
    except FileExistsError:
        refuse(f"{archive} exists and is not overwritten; name another file with --to, or remove it")
    except OSError as error:
        refuse(f"cannot write {archive}: {error.strerror}")
    counts = format_count(capture_result.files, "file"), format_count(capture_result.programs, "program")
    click.echo(f"{archive}: {', '.join(counts)}")
    for path in capture_result.masked:
        click.echo(f"blanked a secret or serial number in {path}", err=True)
    for path, reason in capture_result.withheld.items():
        click.echo(f"left out {path}: {reason}", err=True)
    if identified:
        click.echo("it has the names and addresses of this machine: do not send it to others", err=True)
    else:
        click.echo(f"look into it before you send it: tar xf {archive} -C FOLDER", err=True)


def build_wanted(machine: Machine) -> Wanted:
    """Return everything to read of a machine; programs are run for each of its ports."""
    from trackbed.doctor.checks import READS
    from trackbed.host.discover.wanted import WANTED
    from trackbed.host.snapshot.host_facts import GROUPS
    from trackbed.host.snapshot.snapshot import Wanted
    from trackbed.host.snapshot.take import expand_ports, list_ports

    every = READS | WANTED
    for facts in GROUPS.values():
        every |= facts
    programs = expand_ports(Wanted(commands=every.commands), list_ports(machine))
    files = _select_daemons(machine, _widen_patterns(every.files))
    return Wanted(files, _widen_patterns(every.links), _widen_patterns(every.folders)) | programs


def _limit_programs(machine: Machine) -> Machine:
    """Return the machine with a time limit for all programs together, if it runs any of its own."""
    from trackbed.host.snapshot.limited import LimitedPrograms

    return (
        replace(machine, runner=LimitedPrograms()) if machine.runner is None and machine.root == Path("/") else machine
    )


def _select_daemons(machine: Machine, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Replace patterns of all processes by the files of the daemons that checks read: others' names are private."""
    from trackbed.doctor.checks.processes import DAEMONS

    every = machine.root.glob("proc/[0-9]*/comm")
    pids = [path.parent.name for path in every if machine.read(f"/proc/{path.parent.name}/comm") in DAEMONS]
    others = tuple(pattern for pattern in patterns if not pattern.startswith(_PROCESSES))
    ends = [pattern.removeprefix(_PROCESSES) for pattern in patterns if pattern.startswith(_PROCESSES)]
    return others + tuple(f"/proc/{pid}{end}" for pid in sorted(pids, key=int) for end in ends)


def _widen_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(pattern.replace("{netdev}", "*").replace("{pci}", "*") for pattern in patterns)


def _read_host_name(root: Path) -> str:
    try:
        return (root / "proc/sys/kernel/hostname").read_text().strip().partition(".")[0] or "host"
    except OSError:
        return "host"
