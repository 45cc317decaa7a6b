"""The files, links and folders of a captured machine in memory, read from its archive without unpacking it.

`read_tree` returns the snapshot that `take.read_snapshot` returns of the unpacked archive.
"""

from __future__ import annotations

import errno
import os
import tarfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.archive import MAX_LINKS, Members
from trackbed.host.snapshot.recorded import RECORD, Record, build_runner, decode_record
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.snapshot.take import MAX_FILE_BYTES, PathReaders, read_paths
from trackbed.host.snapshot.untrusted import ArchiveMember, decompress, iter_members

MAX_BYTES = 64 << 20
"""Limit of the selected contents together; those of a large machine have 5 MB."""
_OUTSIDE = "{!r} leads out of the archive by a symbolic link"


@dataclass(frozen=True)
class CapturedTree:
    """The selected members of an archive, and its record."""

    record: Record
    members: Members
    names: dict[str, set[str]]
    """Folder -> names in it; the root is the empty path."""


def load_tree(archive: Path, names: frozenset[str], folders: frozenset[str]) -> CapturedTree:
    """Read the record of an untrusted archive, the members with these names, and what is in these folders.

    Raises one of `untrusted.READ_ERRORS`.
    """

    def is_needed(member: ArchiveMember) -> bool:
        return member.name in names or member.folder in folders or member.path == RECORD

    with archive.open("rb") as file:
        members = {
            member.path: content if member.type == tarfile.REGTYPE else member.target or None
            for member, content in iter_members(decompress(file), is_needed, MAX_BYTES)
        }
    raw = members.pop(RECORD)
    record = decode_record(raw if isinstance(raw, bytes) else b"")
    return CapturedTree(record, members, _list_names(members))


def _list_names(members: Members) -> dict[str, set[str]]:
    """Return the names in each folder; add folders without an entry to `members`."""
    names: dict[str, set[str]] = {"": set()}
    for path in list(members):
        place = path
        while place:
            folder, _, name = place.rpartition("/")
            if folder in names:
                names[folder].add(name)
                break
            names[folder] = {name}
            members.setdefault(folder, None)
            place = folder
    return names


def read_tree(tree: CapturedTree, wanted: Wanted) -> Snapshot:
    """Read everything in `wanted`. Absent and unreadable paths do not raise."""
    readers = PathReaders(partial(_read_file, tree), partial(read_link, tree), partial(_list_folder, tree))
    return read_paths(readers, wanted, _select_outputs(tree.record, wanted.commands))


def _read_file(tree: CapturedTree, path: str) -> bytes:
    content = tree.members[_resolve(tree, path)]
    if not isinstance(content, bytes):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return content[:MAX_FILE_BYTES]


def read_link(tree: CapturedTree, path: str) -> str:
    """Return the target of a link.

    Raises:
        FileNotFoundError: the path is no link.
        OSError: it links to itself, as an unreadable path does.
        ValueError: a link above it leads out of the archive.
    """
    folder, _, name = path.rpartition("/")
    target = tree.members.get(f"{_resolve(tree, folder)}/{name}".lstrip("/"))
    if not isinstance(target, str):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if target == name:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return target


def _select_outputs(record: Record, commands: tuple[tuple[str, ...], ...]) -> dict[tuple[str, ...], ProgramResult]:
    """Return the recorded outputs of commands; status 127 for another command of a recorded program."""
    runner = build_runner(record)
    return {argv: runner.run(argv) for argv in commands if runner.has_program(argv[0])}


def _list_folder(tree: CapturedTree, path: str) -> tuple[str, ...]:
    place = _resolve(tree, path)
    if tree.members.get(place) is not None:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    return tuple(sorted(tree.names.get(place, ())))


def _resolve(tree: CapturedTree, path: str) -> str:
    """Follow all links of a path. Raises OSError as the kernel does, and ValueError for a link out of the archive."""
    remaining = path.split("/")[::-1]
    place, links = "", 0
    while remaining:
        part = remaining.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            place = _ascend(place, path)
            continue
        here = f"{place}/{part}" if place else part
        if here not in tree.members:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        content = tree.members[here]
        if isinstance(content, str):
            links += 1
            remaining += _follow_link(content, path, links)
        else:
            place = here
    return place


def _ascend(place: str, path: str) -> str:
    if not place:
        raise ValueError(_OUTSIDE.format(path))
    return place.rpartition("/")[0]


def _follow_link(target: str, path: str, links: int) -> list[str]:
    """Return the parts of a relative target, the last one first."""
    if links > MAX_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    if target.startswith("/"):
        raise ValueError(_OUTSIDE.format(path))
    return target.split("/")[::-1]
