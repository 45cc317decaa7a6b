"""The files, links and folders of a captured machine in memory, read from its archive without unpacking it.

`read_tree` returns the snapshot that `take.read_snapshot` returns of the unpacked archive.
"""

from __future__ import annotations

import errno
import fnmatch
import glob
import os
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.archive import MAX_LINKS, Members
from trackbed.host.snapshot.recorded import RECORD, Record, build_runner, decode_record
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.snapshot.take import MAX_FILE_BYTES
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
            is_known = folder in names
            names.setdefault(folder, set()).add(name)
            if is_known:
                break
            members.setdefault(folder, None)
            place = folder
    return names


def read_tree(tree: CapturedTree, wanted: Wanted) -> Snapshot:
    """Read everything in `wanted`. Absent and unreadable paths do not raise."""
    files: dict[str, bytes] = {}
    unreadable: dict[str, str] = {}
    for path in _expand_patterns(tree, wanted.files):
        try:
            content = tree.members[_resolve(tree, path)]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            unreadable[path] = str(getattr(error, "strerror", None) or error)
            continue
        if isinstance(content, bytes):
            files[path] = content[:MAX_FILE_BYTES]
    links = ((path, read_link(tree, path)) for path in _expand_patterns(tree, wanted.links))
    return Snapshot(
        files,
        {path: target for path, target in links if target is not None},
        {
            path: names
            for path in _expand_patterns(tree, wanted.folders)
            if (names := _list_folder(tree, path)) is not None
        },
        _select_outputs(tree.record, wanted.commands),
        unreadable,
    )


def read_link(tree: CapturedTree, path: str) -> str | None:
    """Return the target of a link; None if there is none."""
    place = _find_entry(tree, path)
    content = None if place is None else tree.members[place]
    return content if isinstance(content, str) else None


def _select_outputs(record: Record, commands: tuple[tuple[str, ...], ...]) -> dict[tuple[str, ...], ProgramResult]:
    """Return the recorded outputs of commands; status 127 for another command of a recorded program."""
    runner = build_runner(record)
    return {argv: runner.run(argv) for argv in commands if runner.has_program(argv[0])}


def _expand_patterns(tree: CapturedTree, patterns: tuple[str, ...]) -> Iterator[str]:
    """Yield the paths that match, without duplicates; a path without a pattern is yielded in any case."""
    for pattern in dict.fromkeys(patterns):
        if not glob.has_magic(pattern):
            yield pattern
            continue
        paths = [""]
        for part in pattern.split("/")[1:]:
            paths = [f"{path}/{name}" for path in paths for name in _match_names(tree, path, part)]
        yield from sorted(path for path in paths if _find_entry(tree, path) is not None)


def _match_names(tree: CapturedTree, path: str, part: str) -> Iterable[str]:
    """Return the names in a folder that match one part of a pattern; as in a shell, `*` matches no leading dot."""
    if not glob.has_magic(part):
        return (part,)
    names = _list_folder(tree, path) or ()
    return fnmatch.filter((name for name in names if part[0] == "." or name[0] != "."), part)


def _list_folder(tree: CapturedTree, path: str) -> tuple[str, ...] | None:
    """Return the sorted names in a folder; None if it is none, or unreadable."""
    try:
        place = _resolve(tree, path)
    except (OSError, ValueError):
        return None
    return tuple(sorted(tree.names.get(place, ()))) if tree.members.get(place) is None else None


def _find_entry(tree: CapturedTree, path: str) -> str | None:
    """Return the place of a path whose last part is not followed; None if there is nothing."""
    folder, _, name = path.rpartition("/")
    try:
        place = f"{_resolve(tree, folder)}/{name}".lstrip("/")
    except (OSError, ValueError):
        return None
    return place if place in tree.members else None


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
