"""A machine as an archive: real folders, files and links, so that the unpacked tree reads like the machine.

    /sys/class/net/rail0/mtu   ->   sys/class/net/rail0 (a link, as in sysfs), sys/devices/.../net/rail0/mtu (a file)

Links of /proc are not followed, because their targets depend on the reading process. An unreadable file becomes a link
to itself, so that it is unreadable in the tree, too. One more file has the outputs of programs (`recorded.RECORD`).
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from trackbed.host.machine import Machine
from trackbed.host.snapshot.recorded import RECORD
from trackbed.host.snapshot.snapshot import Snapshot
from trackbed.host.snapshot.untrusted import ArchiveMember, decompress, iter_members

MAX_LINKS = 40
"""Maximum number of links in one path, as in the kernel (MAXSYMLINKS)."""

Members = dict[str, bytes | str | None]
"""Path in the archive -> content of a file, target of a link, or None for a folder."""


def write_archive(stream: BinaryIO, members: Members, record: bytes) -> None:
    """Write members and the record of a machine as a compressed tar archive."""
    with tarfile.open(fileobj=stream, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        _write_members(archive, members)
        archive.addfile(_build_file_entry(RECORD, len(record)), io.BytesIO(record))


def build_members(machine: Machine, snapshot: Snapshot, contents: dict[str, bytes]) -> Members:
    """Return the archive's members for what was read, with all links and folders on the way."""
    members: Members = {}
    for path, raw in contents.items():
        members[_resolve_links(machine, path, members)] = raw
    for path in snapshot.unreadable:
        path_in_archive = _resolve_links(machine, path, members)
        members[path_in_archive] = PurePosixPath(path_in_archive).name
    for path, target in snapshot.links.items():
        members[_resolve_links(machine, path, members)] = target
    for path, names in snapshot.folders.items():
        _resolve_links(machine, f"{path}/.", members)
        for name in names:
            _add_folder_entry(machine, f"{path}/{name}", members)
    return members


def _add_folder_entry(machine: Machine, path: str, members: Members) -> None:
    """Add an entry of a listed folder by its type, without content."""
    place = _resolve_links(machine, path, members)
    real = machine.root / place
    if place in members:
        return
    if real.is_symlink():
        members[place] = str(real.readlink())
    else:
        members[place] = None if real.is_dir() else PurePosixPath(place).name


def _resolve_links(machine: Machine, path: str, members: Members) -> str:
    """Return the path with links resolved; add the links and folders on the way to `members`."""
    remaining = [part for part in path.split("/") if part]
    place: list[str] = []
    links = 0
    while len(remaining) > 1 or (remaining and remaining[0] in {".", ".."}):
        part = remaining.pop(0)
        if part == ".":
            continue
        if part == "..":
            place = place[:-1]
            continue
        key = "/".join((*place, part))
        may_be_link = members.get(key, "") is not None and "proc" not in {part, *place[:1]} and links < MAX_LINKS
        if may_be_link and (machine.root / key).is_symlink():
            links += 1
            target = str((machine.root / key).readlink())
            members[key] = _make_relative(target, place)
            place = [] if target.startswith("/") else place
            remaining = [*filter(None, target.split("/")), *remaining]
            continue
        place.append(part)
        members.setdefault(key, None)
    return "/".join((*place, *remaining))


def _make_relative(target: str, folder: list[str]) -> str:
    """Return the target of a link in a folder, relative to it, so that it stays within an unpacked tree."""
    parts = [".."] * len(folder) + [part for part in target.split("/") if part]
    return ("/".join(parts) or ".") if target.startswith("/") else target


def _write_members(archive: tarfile.TarFile, members: Members) -> None:
    for place, content in sorted(members.items()):
        if isinstance(content, bytes):
            archive.addfile(_build_file_entry(place, len(content)), io.BytesIO(content))
            continue
        entry = tarfile.TarInfo(place)
        if content is None:
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        else:
            entry.type, entry.linkname = tarfile.SYMTYPE, content
        archive.addfile(entry)


def _build_file_entry(path: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = size, 0o644
    return entry


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an untrusted archive into an empty folder. Raises one of `untrusted.READ_ERRORS`.

    All members are checked before anything is written. None has a link above it, so nothing is written outside.
    """
    with archive.open("rb") as file:
        for _ in iter_members(decompress(file), lambda _: False):
            pass
        for member, content in iter_members(decompress(file), lambda _: True):
            _write_member(member, content, folder / member.path)


def _write_member(member: ArchiveMember, content: bytes, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if member.type == tarfile.DIRTYPE:
        place.mkdir(exist_ok=True)
    elif member.type == tarfile.SYMTYPE:
        place.symlink_to(member.target)
    else:
        with place.open("xb") as target:
            target.write(content)
