"""A machine as an archive: real folders, files and links, so that the unpacked tree reads like the machine.

    /sys/class/net/rail0/mtu   ->   sys/class/net/rail0 (a link, as in sysfs), sys/devices/.../net/rail0/mtu (a file)

Links of /proc are not followed, because their targets depend on the reading process. An unreadable file becomes a link
to itself, so that it is unreadable in the tree, too. One more file has the outputs of programs (`recorded.RECORD`).
"""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from trackbed.host.machine import Machine
from trackbed.host.snapshot.recorded import RECORD
from trackbed.host.snapshot.snapshot import Snapshot

MAX_LINKS = 40
"""Maximum number of links in one path, as in the kernel (MAXSYMLINKS)."""
MAX_UNPACKED_BYTES = 256 << 20
MAX_MEMBERS = 100_000
"""A machine with a thousand VFs has 40,000."""
MAX_DEPTH = 64
"""Limit of a path's parts; the paths of PCI devices have some 20."""
MAX_HEADER_BYTES = 128 << 20
"""Limit of all headers; one with a long name takes 1.5 KiB."""
MAX_ONE_HEADER_BYTES = 64 << 10
_TOO_LARGE = "its headers are larger than those of any machine"
_GZIP_MAGIC = b"\x1f\x8b"
_TYPES = {tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE}


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
        here = machine.root.joinpath(*place, part)
        key = "/".join((*place, part))
        if place[:1] != ["proc"] and part != "proc" and here.is_symlink() and links < MAX_LINKS:
            links += 1
            target = str(here.readlink())
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


def is_archive(path: Path) -> bool:
    """Return whether a file is a tar archive, compressed by gzip or not. It reads one block (pax(1): ustar)."""
    try:
        with _open_uncompressed(path) as stream:
            return stream.read(tarfile.BLOCKSIZE)[257:262] == b"ustar"
    except (OSError, EOFError, zlib.error):
        return False


def unpack(archive: Path, folder: Path, select: Callable[[str], bool] | None = None) -> None:
    """Unpack an untrusted archive into an empty folder. Raises ValueError or tarfile.TarError on other archives.

    With `select`, only the members whose paths it accepts are written, with the folders above them.

    All headers are checked before anything is written. No member has a link above it, so nothing is written outside.
    """
    with _open_uncompressed(archive) as stream:
        reader = _BoundedReader(stream)
        tar = tarfile.open(fileobj=reader, mode="r:")  # noqa: SIM115 - its stream is closed above
        members = list(_iter_checked_members(tar, reader))
        _check_members(members)
        reader.is_bounded = False
        for member in members:  # in their order, so that nothing is decompressed twice
            if select is None or select(member.name):
                _unpack_member(tar, member, folder / member.name)


def _open_uncompressed(path: Path) -> BinaryIO:
    """Open a file for reading, through gzip where it is compressed."""
    with path.open("rb") as stream:
        is_compressed = stream.read(2) == _GZIP_MAGIC
    return cast("BinaryIO", gzip.open(path)) if is_compressed else path.open("rb")


class _BoundedReader(io.RawIOBase):
    """A stream that refuses to be read further than a capture's headers reach; tarfile reads a header as a whole."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._left = MAX_ONE_HEADER_BYTES
        self._total = 0
        self.is_bounded = True

    def begin_header(self) -> None:
        """Let one more header be read. Raises ValueError beyond the limit of them all."""
        self._total += MAX_ONE_HEADER_BYTES - self._left
        self._left = MAX_ONE_HEADER_BYTES
        if self._total > MAX_HEADER_BYTES:
            raise ValueError(_TOO_LARGE)

    def read(self, size: int = -1, /) -> bytes:
        """Read bytes. Raises ValueError beyond the limit, before they are in memory."""
        if self.is_bounded:
            self._left -= size
            if size < 0 or self._left < 0:
                raise ValueError(_TOO_LARGE)
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Skip bytes."""
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._stream.tell()


def _iter_checked_members(tar: tarfile.TarFile, reader: _BoundedReader) -> Iterator[tarfile.TarInfo]:
    total = 0
    for count, member in enumerate(_iter_members(tar, reader)):
        parts = PurePosixPath(member.name).parts
        is_known = member.type in _TYPES and not member.issparse()
        if member.name.startswith("/") or ".." in parts or len(parts) > MAX_DEPTH or not is_known:
            raise ValueError(f"{member.name[:200]!r} has no place in the archive of a machine")
        member.name = str(PurePosixPath(member.name))  # tar(1) packs the content of a folder as ./NAME
        if member.name == ".":
            continue
        total += member.size
        if count > MAX_MEMBERS or total > MAX_UNPACKED_BYTES:
            raise ValueError(f"it unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB or {MAX_MEMBERS} members")
        yield member


def _iter_members(tar: tarfile.TarFile, reader: _BoundedReader) -> Iterator[tarfile.TarInfo]:
    while True:
        reader.begin_header()
        member = tar.next()
        if member is None:
            return
        yield member


def _check_members(members: Sequence[tarfile.TarInfo]) -> None:
    """Check that a capture is meant, that no place is taken twice, and that members are below folders only."""
    types: dict[str, bytes] = {}
    for member in members:
        if not (member.isdir() and types.get(member.name) == tarfile.DIRTYPE) and member.name in types:
            raise ValueError(f"{member.name!r} is in it twice")
        types[member.name] = member.type
    if RECORD not in types:
        raise ValueError(f"it holds no {RECORD}, so `trackbed capture` did not write it")
    for name in types:
        for parent in PurePosixPath(name).parents:
            if types.get(str(parent), tarfile.DIRTYPE) != tarfile.DIRTYPE:
                raise ValueError(f"{name!r} is below {str(parent)!r}, which is no folder")


def _unpack_member(tar: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if member.isdir():
        place.mkdir(exist_ok=True)
    elif member.issym():
        place.symlink_to(member.linkname)
    else:
        stream = tar.extractfile(member)
        with place.open("xb") as target:
            if stream is not None:
                shutil.copyfileobj(stream, target)
