"""Reading of a snapshot from a machine: live, under another root, or an unpacked archive."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from trackbed.host.machine import Machine
from trackbed.host.runner import Ran
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_UNREADABLE = (OSError, ValueError, RuntimeError)
"""Errors of a path that is unreadable or outside the root; RuntimeError: link loops before Python 3.13."""

_FUNCTION = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
"""A PCI address as in sysfs; the device of a virtio NIC is named differently."""

_SIDE_BY_SIDE = 8
"""Programs that run at once: most of their time they wait for firmware and sockets."""

MAX_BYTES = 1 << 20
"""Limit for each file, so that a log or a wrong pattern cannot fill the memory."""


def take(machine: Machine, wanted: Wanted) -> Snapshot:
    """Read everything in `wanted`; absent and unreadable paths never raise."""
    files: dict[str, bytes] = {}
    unreadable: dict[str, str] = {}
    for path in _expand(machine, wanted.files):
        try:
            files[path] = _read_file(machine, path)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            continue  # it went away meanwhile, or is no file
        except _UNREADABLE as error:
            unreadable[path] = str(getattr(error, "strerror", None) or error)
    return Snapshot(
        files, _read_links(machine, wanted), _read_folders(machine, wanted), _run_commands(machine, wanted), unreadable
    )


def list_ports(machine: Machine) -> dict[str, str]:
    """Return interface -> PCI address of every physical function with an interface, sorted by name."""
    addresses: dict[str, str] = {}
    for link in sorted(_expand(machine, ("/sys/class/net/*/device",))):
        with suppress(*_UNREADABLE):
            function = machine.locate(link).readlink().name
            virtual = os.path.lexists(machine.locate(f"{link}/physfn"))
            if _FUNCTION.fullmatch(function) and not virtual:
                addresses[link.split("/")[4]] = function
    return addresses


def expand_ports(wanted: Wanted, ports: Mapping[str, str | None]) -> Wanted:
    """Fill in {netdev} and {pci} for each port; `ports` is interface -> PCI address, where known."""
    return Wanted(
        tuple(expanded for pattern in wanted.files for expanded in _fill_placeholders(pattern, ports)),
        tuple(expanded for pattern in wanted.links for expanded in _fill_placeholders(pattern, ports)),
        tuple(expanded for pattern in wanted.folders for expanded in _fill_placeholders(pattern, ports)),
        tuple(dict.fromkeys(expanded for argv in wanted.commands for expanded in _expand_command(argv, ports))),
    )


def _fill_placeholders(pattern: str, ports: Mapping[str, str | None]) -> Iterator[str]:
    if "{netdev}" not in pattern and "{pci}" not in pattern:
        yield pattern
        return
    for netdev, pci in ports.items():
        if "{pci}" not in pattern or pci is not None:
            yield pattern.replace("{netdev}", netdev).replace("{pci}", pci or "")


def _expand_command(argv: tuple[str, ...], ports: Mapping[str, str | None]) -> Iterator[tuple[str, ...]]:
    for words in _fill_placeholders("\0".join(argv), ports):
        yield tuple(words.split("\0"))


def _expand(machine: Machine, patterns: tuple[str, ...]) -> Iterator[str]:
    """Yield the absolute paths that match, without duplicates; paths outside the root are left out."""
    for pattern in dict.fromkeys(patterns):
        if glob.has_magic(pattern):
            for path in sorted(glob.glob(pattern.lstrip("/"), root_dir=machine.root)):  # noqa: PTH207 - a root of its own
                yield f"/{path}"
        else:
            yield pattern


def _read_file(machine: Machine, path: str) -> bytes:
    with machine.locate_inside(path).open("rb") as stream:
        return stream.read(MAX_BYTES)


def _read_links(machine: Machine, wanted: Wanted) -> dict[str, str]:
    targets = {}
    for path in _expand(machine, wanted.links):
        with suppress(*_UNREADABLE):
            targets[path] = str(machine.locate(path).readlink())
    return targets


def _read_folders(machine: Machine, wanted: Wanted) -> dict[str, tuple[str, ...]]:
    names = {}
    for path in _expand(machine, wanted.folders):
        with suppress(*_UNREADABLE):
            names[path] = tuple(sorted(_list_names(machine.locate_inside(path))))
    return names


def _list_names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


def _run_commands(machine: Machine, wanted: Wanted) -> dict[tuple[str, ...], Ran]:
    """Run the commands in parallel; return their outcomes in the order of the commands."""
    if not wanted.commands:
        return {}
    with ThreadPoolExecutor(min(_SIDE_BY_SIDE, len(wanted.commands)), "take") as threads:
        outcomes = zip(wanted.commands, threads.map(machine.run, wanted.commands), strict=True)
        return {argv: outcome for argv, outcome in outcomes if isinstance(outcome, Ran)}
