"""Reading of snapshots from a live machine, from another root folder, or from an unpacked archive."""

from __future__ import annotations

import errno
import glob
import os
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from itertools import groupby
from typing import NamedTuple, TypeVar

from trackbed.host.machine import Machine
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_T = TypeVar("_T")

_ABSENT_ERRORS = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_READ_ERRORS = (OSError, ValueError, RuntimeError)
"""Errors of a path that is unreadable or outside the root; RuntimeError: link loops before Python 3.13."""

_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
"""A PCI address as in sysfs; the device of a virtio NIC is named differently."""

_PARALLEL_PROGRAMS = 8
"""Programs spend most of their time waiting for firmware and sockets."""

_RDMA_CLASS = "/sys/class/infiniband"
"""It exists where ib_core is loaded."""
_RDMA_PROGRAMS = frozenset({"ibv_devinfo", "rdma"})
"""Programs that open NETLINK_RDMA, for which the kernel loads ib_core (net/netlink/af_netlink.c, netlink_create): they
would change what is read, and there is nothing for them to print."""

MAX_FILE_BYTES = 1 << 20
"""Size limit of each file, so that a log or a wrong pattern cannot exhaust memory."""


class PathReaders(NamedTuple):
    """Functions that read a path: the content of a file, the target of a link, the sorted names in a folder.

    They raise FileNotFoundError, NotADirectoryError or IsADirectoryError for an absent path or another type, and
    another OSError, ValueError or RuntimeError for one that cannot be read.
    """

    read_file: Callable[[str], bytes]
    read_link: Callable[[str], str]
    list_folder: Callable[[str], tuple[str, ...]]


def read_snapshot(machine: Machine, wanted: Wanted) -> Snapshot:
    """Read everything in `wanted`. Absent and unreadable paths do not raise.

    A folder that a pattern needs and that cannot be listed is unreadable.
    """
    readers = PathReaders(partial(_read_file, machine), partial(_read_link, machine), partial(_list_folder, machine))
    return read_paths(readers, wanted, _run_commands(machine, wanted))


def read_paths(readers: PathReaders, wanted: Wanted, outputs: dict[tuple[str, ...], ProgramResult]) -> Snapshot:
    """Return the snapshot of what the readers return for `wanted`, with the outputs of programs."""
    unreadable: dict[str, str] = {}
    return Snapshot(
        _read_all(readers, wanted.files, readers.read_file, unreadable),
        _read_all(readers, wanted.links, readers.read_link, unreadable),
        _read_all(readers, wanted.folders, readers.list_folder, unreadable),
        outputs,
        unreadable,
    )


def _read_all(
    readers: PathReaders, patterns: tuple[str, ...], read: Callable[[str], _T], unreadable: dict[str, str]
) -> dict[str, _T]:
    """Return what is read of each path that matches; add to `unreadable` why a path could not be read."""
    values: dict[str, _T] = {}
    for path in _expand_patterns(readers.list_folder, patterns, unreadable):
        try:
            values[path] = read(path)
        except _ABSENT_ERRORS:
            continue  # it was removed in the meantime, or is of another type
        except _READ_ERRORS as error:
            unreadable[path] = _describe_error(error)
    return values


def _describe_error(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def list_ports(machine: Machine) -> dict[str, str]:
    """Return interface -> PCI address of every physical function with an interface, sorted by name."""
    addresses: dict[str, str] = {}
    for link in sorted(_expand_patterns(partial(_list_folder, machine), ("/sys/class/net/*/device",), {})):
        with suppress(*_READ_ERRORS):
            function = machine.locate(link).readlink().name
            virtual = os.path.lexists(machine.locate(f"{link}/physfn"))
            if _PCI_ADDRESS.fullmatch(function) and not virtual:
                addresses[link.split("/")[4]] = function
    return addresses


def find_pci(machine: Machine, netdev: str) -> str | None:
    """Return the PCI address of an interface; None if it has none or does not exist."""
    try:
        return machine.locate(f"/sys/class/net/{netdev}/device").readlink().name
    except (OSError, ValueError):
        return None


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


def _expand_patterns(
    list_folder: Callable[[str], tuple[str, ...]], patterns: tuple[str, ...], unreadable: dict[str, str]
) -> Iterator[str]:
    """Yield the absolute paths that match, without duplicates for each pattern, sorted by folder.

    A path without wildcards is yielded though it may be absent. Names that begin with a dot match no wildcard.
    """
    for pattern in dict.fromkeys(patterns):
        paths = [""]
        for is_wild, part in _split_pattern(pattern):
            if is_wild:
                paths = [path for folder in paths for path in _match_names(list_folder, folder, part, unreadable)]
            else:
                paths = [f"{path}/{part}" for path in paths]
        yield from paths


def _split_pattern(pattern: str) -> Iterator[tuple[bool, str]]:
    """Yield the parts of a pattern, and whether each has a wildcard; neighbours without one are one part."""
    for is_wild, group in groupby(pattern.strip("/").split("/"), glob.has_magic):
        parts = list(group)
        yield from [(True, part) for part in parts] if is_wild else [(False, "/".join(parts))]


def _match_names(
    list_folder: Callable[[str], tuple[str, ...]], folder: str, pattern: str, unreadable: dict[str, str]
) -> list[str]:
    """Return the paths of a folder's entries that match; empty if it is absent or cannot be listed."""
    try:
        names = list_folder(folder or "/")
    except _ABSENT_ERRORS:
        return []
    except _READ_ERRORS as error:
        unreadable[folder or "/"] = _describe_error(error)
        return []
    return [f"{folder}/{name}" for name in names if not name.startswith(".") and fnmatchcase(name, pattern)]


def _read_file(machine: Machine, path: str) -> bytes:
    with machine.locate_inside(path).open("rb") as stream:
        return stream.read(MAX_FILE_BYTES)


def _read_link(machine: Machine, path: str) -> str:
    """Return the target of a link.

    Raises:
        FileNotFoundError: the path is no link.
        OSError: it cannot be read, or links to itself, as an unreadable path does in an archive.
    """
    try:
        target = str(machine.locate(path).readlink())
    except OSError as error:
        if error.errno == errno.EINVAL:  # readlink(2)
            raise FileNotFoundError(errno.ENOENT, f"{path} is no link") from error
        raise
    if target == path.rpartition("/")[2]:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


def _list_folder(machine: Machine, path: str) -> tuple[str, ...]:
    return tuple(sorted(os.listdir(machine.locate_inside(path))))  # noqa: PTH208 - only the names


def _run_commands(machine: Machine, wanted: Wanted) -> dict[tuple[str, ...], ProgramResult]:
    """Run the commands in parallel; return their outcomes in the order of the commands."""
    commands = [argv for argv in wanted.commands if argv[0] not in _RDMA_PROGRAMS or _has_rdma(machine)]
    if not commands:
        return {}
    with ThreadPoolExecutor(min(_PARALLEL_PROGRAMS, len(commands)), "take") as threads:
        outcomes = zip(commands, threads.map(machine.run, commands))
        return {argv: outcome for argv, outcome in outcomes if isinstance(outcome, ProgramResult)}


def _has_rdma(machine: Machine) -> bool:
    try:
        return machine.locate(_RDMA_CLASS).is_dir()
    except _READ_ERRORS:
        return False
