"""Reading of snapshots from a live machine, from another root folder, or from an unpacked archive."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from trackbed.host.machine import Machine
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_READ_ERRORS = (OSError, ValueError, RuntimeError)
"""Errors of a path that is unreadable or outside the root; RuntimeError: link loops before Python 3.13."""

_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
"""A PCI address as in sysfs; the device of a virtio NIC is named differently."""

_PARALLEL_PROGRAMS = 8
"""Programs spend most of their time waiting for firmware and sockets."""

MAX_FILE_BYTES = 1 << 20
"""Size limit of each file, so that a log or a wrong pattern cannot exhaust memory."""


def read_snapshot(machine: Machine, wanted: Wanted) -> Snapshot:
    """Read everything in `wanted`. Absent and unreadable paths do not raise."""
    files: dict[str, bytes] = {}
    unreadable: dict[str, str] = {}
    for path in _expand_patterns(machine, wanted.files):
        try:
            files[path] = _read_file(machine, path)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            continue  # the file was removed in the meantime, or is a folder
        except _READ_ERRORS as error:
            unreadable[path] = str(getattr(error, "strerror", None) or error)
    return Snapshot(
        files, _read_links(machine, wanted), _read_folders(machine, wanted), _run_commands(machine, wanted), unreadable
    )


def list_ports(machine: Machine) -> dict[str, str]:
    """Return interface -> PCI address of every physical function with an interface, sorted by name."""
    addresses: dict[str, str] = {}
    for link in sorted(_expand_patterns(machine, ("/sys/class/net/*/device",))):
        with suppress(*_READ_ERRORS):
            function = machine.locate(link).readlink().name
            virtual = os.path.lexists(machine.locate(f"{link}/physfn"))
            if _PCI_ADDRESS.fullmatch(function) and not virtual:
                addresses[link.split("/")[4]] = function
    return addresses


def expand_ports(wanted: Wanted, ports: Mapping[str, str | None]) -> Wanted:
    """Expand {netdev} and {pci} once per port. Ports without a PCI address skip patterns with {pci}."""
    return Wanted(
        tuple(expanded for pattern in wanted.files for expanded in _fill_placeholders(pattern, ports)),
        tuple(expanded for pattern in wanted.links for expanded in _fill_placeholders(pattern, ports)),
        tuple(expanded for pattern in wanted.folders for expanded in _fill_placeholders(pattern, ports)),
        tuple(
            dict.fromkeys(
                tuple(command.split("\0"))
                for argv in wanted.commands
                for command in _fill_placeholders("\0".join(argv), ports)
            )
        ),
    )


def _fill_placeholders(pattern: str, ports: Mapping[str, str | None]) -> Iterator[str]:
    if "{netdev}" not in pattern and "{pci}" not in pattern:
        yield pattern
        return
    for netdev, pci in ports.items():
        if "{pci}" not in pattern or pci is not None:
            yield pattern.replace("{netdev}", netdev).replace("{pci}", pci or "")


def _expand_patterns(machine: Machine, patterns: tuple[str, ...]) -> Iterator[str]:
    """Yield the absolute paths that match, without duplicates; paths outside the root are left out."""
    for pattern in dict.fromkeys(patterns):
        if glob.has_magic(pattern):
            root = str(machine.root).rstrip("/")
            for path in sorted(glob.glob(glob.escape(root) + pattern)):  # noqa: PTH207 - Path has no absolute patterns
                yield path[len(root) :]
        else:
            yield pattern


def _read_file(machine: Machine, path: str) -> bytes:
    with machine.locate_inside(path).open("rb") as stream:
        return stream.read(MAX_FILE_BYTES)


def _read_links(machine: Machine, wanted: Wanted) -> dict[str, str]:
    targets = {}
    for path in _expand_patterns(machine, wanted.links):
        with suppress(*_READ_ERRORS):
            targets[path] = str(machine.locate(path).readlink())
    return targets


def _read_folders(machine: Machine, wanted: Wanted) -> dict[str, tuple[str, ...]]:
    names = {}
    for path in _expand_patterns(machine, wanted.folders):
        with suppress(*_READ_ERRORS):
            names[path] = tuple(sorted(os.listdir(machine.locate_inside(path))))  # noqa: PTH208 - only the names
    return names


def _run_commands(machine: Machine, wanted: Wanted) -> dict[tuple[str, ...], ProgramResult]:
    """Run the commands in parallel; return their outcomes in the order of the commands."""
    if not wanted.commands:
        return {}
    with ThreadPoolExecutor(min(_PARALLEL_PROGRAMS, len(wanted.commands)), "take") as threads:
        outcomes = zip(wanted.commands, threads.map(machine.run, wanted.commands))
        return {argv: outcome for argv, outcome in outcomes if isinstance(outcome, ProgramResult)}
