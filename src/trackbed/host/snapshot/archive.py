"""A machine as an archive: real folders, files and links, so that the unpacked tree reads like the machine.

    /sys/class/net/rail0/mtu   ->   sys/class/net/rail0 (a link, as in sysfs), sys/devices/.../net/rail0/mtu (a file)

Folders of /proc are taken as they are asked for: its links lead to whoever looks. A file that is there and cannot be
read becomes a link to itself, so that it cannot be read in the tree either. What programs said lies beside the files.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import msgspec

from trackbed.host.machine import Machine
from trackbed.host.snapshot.recorded import RECORD, Output, Record
from trackbed.host.snapshot.secrets import is_forbidden, mask_secrets
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.snapshot.take import take

MAX_LINKS = 40
"""Links on the way to one file, as the kernel allows (MAXSYMLINKS)."""
MAX_UNPACKED_BYTES = 256 << 20
MAX_MEMBERS = 500_000


@dataclass(frozen=True, slots=True)
class Captured:
    """Counts of an archive, and the files that were masked or withheld."""

    files: int
    programs: int
    masked: tuple[str, ...]
    """Files and programs in which a secret was masked."""
    withheld: tuple[str, ...]
    """Requested files that never leave a machine."""


def capture(machine: Machine, wanted: Wanted, stream: BinaryIO) -> Captured:
    """Write the requested files and outputs of a machine as a compressed tar archive."""
    snapshot = take(machine, wanted)
    withheld = tuple(sorted(path for path in snapshot.files if is_forbidden(path)))
    contents = {path: mask_secrets(path, raw) for path, raw in snapshot.files.items() if path not in withheld}
    masked = tuple(sorted(path for path, raw in contents.items() if raw != snapshot.files[path]))
    outputs = tuple(
        Output(argv, ran.status, mask_secrets("", ran.output.encode()).decode())
        for argv, ran in snapshot.outputs.items()
    )
    with tarfile.open(fileobj=stream, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        _write_members(archive, _build_members(machine, snapshot, contents))
        record = msgspec.json.encode(Record(outputs, masked))
        archive.addfile(_build_file_entry(RECORD, len(record)), io.BytesIO(record))
    return Captured(len(contents), len(outputs), masked, withheld)


_Members = dict[str, bytes | str | None]
"""Place in the archive -> content of a file, target of a link, or None for a folder."""


def _build_members(machine: Machine, snapshot: Snapshot, contents: dict[str, bytes]) -> _Members:
    members: _Members = {}
    for path, raw in contents.items():
        members[_resolve(machine, path, members)] = raw
    for path in snapshot.unreadable:
        path_in_archive = _resolve(machine, path, members)
        members[path_in_archive] = PurePosixPath(path_in_archive).name
    for path, target in snapshot.links.items():
        members[_resolve(machine, path, members)] = target
    for path, names in snapshot.folders.items():
        _resolve(machine, f"{path}/.", members)
        for name in names:
            _add_entry(machine, f"{path}/{name}", members)
    return members


def _add_entry(machine: Machine, path: str, members: _Members) -> None:
    """Add an entry of a listed folder by its type, without its content."""
    place = _resolve(machine, path, members)
    real = machine.root / place
    if place in members:
        return
    if real.is_symlink():
        members[place] = str(real.readlink())
    else:
        members[place] = None if real.is_dir() else PurePosixPath(place).name


def _resolve(machine: Machine, path: str, members: _Members) -> str:
    """Return the real path of a path; add every link and folder on the way to the members."""
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
        here = machine.root.joinpath(*place, part)
        key = "/".join((*place, part))
        if place[:1] != ["proc"] and part != "proc" and here.is_symlink() and links < MAX_LINKS:
            links += 1
            target = str(here.readlink())
            members[key] = target
            place = [] if target.startswith("/") else place
            remaining = [part_of_target for part_of_target in target.split("/") if part_of_target] + remaining
            continue
        place.append(part)
        members.setdefault(key, None)
    return "/".join((*place, *remaining))


def _write_members(archive: tarfile.TarFile, members: _Members) -> None:
    for place in sorted(members):
        content = members[place]
        if content is None:
            entry = tarfile.TarInfo(place)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        elif isinstance(content, str):
            entry = tarfile.TarInfo(place)
            entry.type, entry.linkname = tarfile.SYMTYPE, content
            archive.addfile(entry)
        else:
            archive.addfile(_build_file_entry(place, len(content)), io.BytesIO(content))


def _build_file_entry(place: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(place)
    entry.size, entry.mode = size, 0o644
    return entry


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an untrusted archive into an empty folder. Raises ValueError or tarfile.TarError on other archives.

    Nothing is written outside the folder: the parent of each member is resolved first.
    """
    with tarfile.open(archive) as tar:
        members = list(_iter_checked(tar))
        if not any(member.name == RECORD for member in members):
            raise ValueError(f"it holds no {RECORD}, so `trackbed capture` did not write it")
        for member in sorted(members, key=lambda entry: (entry.issym(), entry.name)):
            _unpack_member(tar, member, folder)


def _iter_checked(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    total = 0
    for count, member in enumerate(tar):
        parts = PurePosixPath(member.name).parts
        if member.name.startswith("/") or ".." in parts or not (member.isfile() or member.isdir() or member.issym()):
            raise ValueError(f"{member.name!r} has no place in the archive of a machine")
        total += member.size
        if count > MAX_MEMBERS or total > MAX_UNPACKED_BYTES:
            raise ValueError(f"it unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB or {MAX_MEMBERS} members")
        yield member


def _unpack_member(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write one member; links come last, so no file is ever written through a link."""
    place = folder / member.name
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.parent.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{member.name!r} leads out of the archive")
    if member.isdir():
        place.mkdir(exist_ok=True)
    elif member.issym():
        place.symlink_to(member.linkname)
    else:
        stream = tar.extractfile(member)
        place.write_bytes(stream.read() if stream else b"")


def mask_snapshot(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot as it would be captured: secrets masked, forbidden files removed."""
    files = {path: mask_secrets(path, raw) for path, raw in snapshot.files.items() if not is_forbidden(path)}
    return Snapshot(files, snapshot.links, snapshot.folders, snapshot.outputs, snapshot.unreadable)
