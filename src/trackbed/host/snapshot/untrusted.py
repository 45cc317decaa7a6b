"""Members of an untrusted archive, read once from its beginning to its end: the only reader of archives.

    gzip or tar ──> decompress ──> blocks of 512 bytes ──> parse_header (cached) ──> checked ArchiveMember, content

A site's hosts are alike, and so are their archives: nearly every header of one is a header of the others, byte for
byte, since `write_archive` writes no times. A header that was parsed once is therefore found again by its bytes.
Blocks are those of tar (pax(1), ustar); tarfile parses them.
"""

from __future__ import annotations

import io
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, NamedTuple, Protocol, cast

from zlib_ng import zlib_ng

from trackbed.host.snapshot.recorded import RECORD

MAX_UNPACKED_BYTES = 256 << 20
MAX_MEMBERS = 100_000
"""A machine with a thousand VFs has 40,000."""
MAX_DEPTH = 64
"""Limit of a path's parts; the paths of PCI devices have some 20."""
MAX_HEADER_BYTES = 128 << 20
"""Limit of all headers; one with a long name takes 1.5 KiB."""
MAX_ONE_HEADER_BYTES = 64 << 10
_INFLATE_ERROR = cast("type[Exception]", zlib_ng.error)  # its types say that it is an instance
READ_ERRORS = (OSError, ValueError, EOFError, tarfile.TarError, _INFLATE_ERROR)
"""What reading an archive raises if it is damaged, hostile, or none."""

_BLOCK = tarfile.BLOCKSIZE
_END = bytes(_BLOCK)
_HEADER_TOO_LARGE = "one of its headers is larger than those of any machine"
_TOO_LARGE = (
    f"it unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB, {MAX_MEMBERS} members "
    f"or {MAX_HEADER_BYTES >> 20} MiB of headers"
)
_CUT_OFF = "it ends before its end: it was cut off, so copy it again"
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP = zlib_ng.MAX_WBITS | 16
_CHUNK_BYTES = 64 << 10
_BUFFER_BYTES = 256 << 10
_FILE_TYPES = {tarfile.REGTYPE, tarfile.AREGTYPE}
_EXTENSIONS = {tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE}
"""Types of headers that extend the next one."""
_TYPE_AT, _SIZE_AT = 156, slice(124, 136)
_CACHED_HEADERS = 1 << 15
"""Three times those of a host with 8 rails; they take 30 MB, and 80 MB at most."""
_CACHED_HEADER_BYTES = 2 << 10


class ArchiveMember(NamedTuple):
    """A folder, file or link of an archive, with a path that has a place below the archive's root."""

    path: str
    """Relative, without `.` and `..`; empty for the root itself."""
    folder: str
    name: str
    type: bytes
    """One of tarfile's DIRTYPE, SYMTYPE and REGTYPE."""
    size: int
    """Bytes of content."""
    size_in_blocks: int
    """Bytes of the blocks that the content takes."""
    target: str
    """Target of a link."""


def is_archive(path: Path) -> bool:
    """Return whether a file is a tar archive, compressed by gzip or not. It reads one block (pax(1): ustar)."""
    try:
        with path.open("rb") as file:
            return decompress(file).read(_BLOCK)[257:262] == b"ustar"
    except (OSError, EOFError, _INFLATE_ERROR):
        return False


class ByteReader(Protocol):
    """A stream that is read forwards."""

    def read(self, size: int, /) -> bytes:
        """Return so many bytes, fewer at the end. Raises EOFError, OSError or zlib_ng.error if they cannot be read."""


def decompress(file: io.BufferedReader) -> ByteReader:
    """Return a file from its beginning, decompressed where it is compressed by gzip."""
    file.seek(0)
    return GzipReader(file) if file.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC) else file


class GzipReader:
    """A gzip file of any number of members (RFC 1952, 2.2).

    gzip.GzipFile takes twice the time for short reads, and zlib for long ones.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = zlib_ng.decompressobj(_GZIP)
        self._buffer = b""
        self._position = 0

    def read(self, size: int, /) -> bytes:
        """Return so many bytes, fewer at the end. Raises EOFError if the file was cut off."""
        end = self._position + size
        if end > len(self._buffer):
            self._fill_buffer(size)
            end = size
        content = self._buffer[self._position : end]
        self._position = end
        return content

    def _fill_buffer(self, size: int) -> None:
        """Drop what was read, and decompress until the buffer has so many bytes, or to the end."""
        chunks = [self._buffer[self._position :]]
        length = len(chunks[0])
        while length < size and (chunk := self._decompress()):
            chunks.append(chunk)
            length += len(chunk)
        self._buffer, self._position = b"".join(chunks), 0

    def _decompress(self) -> bytes:
        """Return the next bytes; none at the end."""
        while True:
            if self._decoder.eof:
                compressed = self._decoder.unused_data.lstrip(b"\0") or self._stream.read(_CHUNK_BYTES)
                if not compressed.strip(b"\0"):  # gzip pads files with zeros
                    return b""
                self._decoder = zlib_ng.decompressobj(_GZIP)
            else:
                compressed = self._decoder.unconsumed_tail or self._stream.read(_CHUNK_BYTES)
            content = self._decoder.decompress(compressed, _BUFFER_BYTES)
            if content:
                return content
            if not compressed and not self._decoder.eof:
                raise EOFError(_CUT_OFF)


def iter_members(
    stream: ByteReader, select: Callable[[ArchiveMember], bool], max_selected_bytes: int = MAX_UNPACKED_BYTES
) -> Iterator[tuple[ArchiveMember, bytes]]:
    """Yield the selected members with their contents, and check all members.

    Until it has ended without an error, the archive may be hostile, and nothing of it may be used or written.

    Raises:
        One of READ_ERRORS. ValueError: a member has no place below the root, or is below a file or link; a place is
        taken twice; a limit is exceeded; `trackbed capture` did not write the archive.
    """
    members: list[ArchiveMember] = []
    total = selected = header_bytes = 0
    header = stream.read(_BLOCK)
    while header != _END:
        member = _HEADERS.get(header)
        if member is None:
            blocks = _read_extended_header(stream, header)
            header_bytes += len(blocks)
            member = _HEADERS[blocks]
        members.append(member)
        total += member.size
        if total > MAX_UNPACKED_BYTES or len(members) > MAX_MEMBERS or header_bytes > MAX_HEADER_BYTES:
            raise ValueError(_TOO_LARGE)
        if select(member):
            selected += member.size
            if selected > max_selected_bytes:
                raise ValueError(f"what is needed of it has more than {max_selected_bytes >> 20} MiB")
            yield member, _read_exactly(stream, member.size)
            header = _read_next_header(stream, -member.size % _BLOCK)
        else:
            header = _read_next_header(stream, member.size_in_blocks)
    _check_places(members)


def _check_places(members: Sequence[ArchiveMember]) -> None:
    """Check that a capture is meant, that no place is taken twice, and that members are below folders only."""
    types = {member.path: member.type for member in members}
    if RECORD not in types:
        raise ValueError(f"it holds no {RECORD}, so `trackbed capture` did not write it")
    if len(types) < len(members):
        _check_repeated(members)
    _check_folders({member.folder for member in members}, types)


def _check_repeated(members: Sequence[ArchiveMember]) -> None:
    """Check that only folders are in the archive more than once."""
    counts = Counter(member.path for member in members)
    types = {(member.path, member.type) for member in members if counts[member.path] > 1}
    repeated = next((path for path, kind in types if kind != tarfile.DIRTYPE), None)
    if repeated is not None:
        raise ValueError(f"{repeated!r} is in it twice")


def _check_folders(folders: set[str], types: Mapping[str, bytes]) -> None:
    """Check that what contains a member is a folder, also if the archive has no entry for it."""
    checked = {""}
    for folder in folders:
        place = folder
        while place not in checked:
            if types.get(place, tarfile.DIRTYPE) != tarfile.DIRTYPE:
                raise ValueError(f"a member is below {place!r}, which is no folder")
            checked.add(place)
            place = place.rpartition("/")[0]


def _read_next_header(stream: ByteReader, distance: int) -> bytes:
    """Return the block that follows after a number of bytes."""
    while distance > _BUFFER_BYTES:
        distance -= len(_read_exactly(stream, _BUFFER_BYTES))
    return stream.read(distance + _BLOCK)[distance:]


def _read_exactly(stream: ByteReader, size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise EOFError(_CUT_OFF)
    return content


def _read_extended_header(stream: ByteReader, header: bytes) -> bytes:
    """Return a header; if it extends others, with its content and with the headers that follow, up to a member's."""
    if len(header) < _BLOCK:
        raise EOFError(_CUT_OFF)
    blocks = header
    while header[_TYPE_AT : _TYPE_AT + 1] in _EXTENSIONS:
        digits = header[_SIZE_AT].strip(b" \0")  # larger sizes than 8 GiB are no octal digits
        size = int(digits, 8) if digits.isdigit() else MAX_ONE_HEADER_BYTES
        if size > MAX_ONE_HEADER_BYTES - len(blocks):
            raise ValueError(_HEADER_TOO_LARGE)
        content = _read_exactly(stream, size + -size % _BLOCK)
        header = _read_exactly(stream, _BLOCK)
        blocks += content + header
    return blocks


class _Headers(dict[bytes, ArchiveMember]):
    """Headers, each with what extends it -> their members."""

    def __missing__(self, blocks: bytes) -> ArchiveMember:
        """Parse a header, and keep it unless it is large. Raises ValueError as `_parse_header` does."""
        if len(self) >= _CACHED_HEADERS:
            self.clear()
        member = _parse_header(blocks)
        if len(blocks) <= _CACHED_HEADER_BYTES:
            self[blocks] = member
        return member


_HEADERS: Final = _Headers()


def _parse_header(blocks: bytes) -> ArchiveMember:
    """Return the member of a header. Raises ValueError if it has no place in the archive of a machine."""
    header = _parse_blocks(blocks)
    path = PurePosixPath(header.name)
    if not _is_known(header, path):
        raise ValueError(f"{header.name[:200]!r} has no place in the archive of a machine")
    is_file, text = header.isreg(), str(path) if path.name else ""
    folder, _, name = text.rpartition("/")
    kind, size = (tarfile.REGTYPE, header.size) if is_file else (header.type, 0)
    return ArchiveMember(text, folder, name, kind, size, size + -size % _BLOCK, header.linkname)


def _is_known(header: tarfile.TarInfo, path: PurePosixPath) -> bool:
    """Return whether a header is of a file, link or folder below the root; the root itself is a folder."""
    if path.is_absolute() or ".." in path.parts or len(path.parts) > MAX_DEPTH or header.size < 0:
        return False
    if header.issym():
        return bool(path.name and header.linkname)
    return header.isdir() or (header.type in _FILE_TYPES and bool(path.name) and not header.issparse())


def _parse_blocks(blocks: bytes) -> tarfile.TarInfo:
    """Parse blocks by tarfile. Raises ValueError, also for a sparse file whose map follows its header."""
    try:
        with tarfile.open(fileobj=io.BytesIO(blocks), mode="r:") as archive:
            header = archive.next()
    except (tarfile.TarError, ValueError) as error:
        raise ValueError(f"a header in it has no place in the archive of a machine ({error})") from error
    if header is None:
        raise ValueError("a header in it has no place in the archive of a machine (it is empty)")
    return header
