"""A crash-safe file of records, independent of their content.

    record    4 bytes magic | 4 bytes length | 4 bytes CRC-32 of the payload | payload        numbers are little-endian
    file      DIR/journal: records, one after another; DIR/lock: held (flock) by the one process that may write

- **Appended** records are in the page cache as soon as `append` returns: killing the writer loses none. With
  `sync=True` they are also on the disk (fdatasync).
- **A torn last record** (length, magic or checksum wrong) was never acknowledged; reading skips it.
- **A damaged record in the middle** is skipped alone: reading continues at the next offset where magic, length and
  checksum agree. So every record must be meaningful alone, and the content of the lost one must be recovered elsewhere
  (trackbed.node.rails.store queries the kernel).
- **Compaction** writes all current records to a new file, fsyncs it, renames it over the old one and fsyncs the
  folder: at every moment one of the two is complete and in place.
- **A full disk** makes `append` raise and leaves no partial record. From then on the journal is `behind` and must be
  rewritten before the next append, so that the failed record is not missing later.
"""

import fcntl
import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from trackbed.host.atomic import sync_folder

_MAGIC = b"TBj1"
_HEAD = struct.Struct("<4sII")
MAX_PAYLOAD_BYTES = 1 << 20
"""Longer records are not written, and a longer length in a header is treated as damage."""
_NEEDED_FREE_BYTES = 1 << 16


class JournalError(Exception):
    """The journal cannot be opened or written; the message says why and what to do."""


class JournalContents(NamedTuple):
    """The payloads of a file in order, and the number of bytes that belonged to no complete record."""

    payloads: list[bytes]
    damaged_bytes: int


def frame_record(payload: bytes) -> bytes:
    """Return the record of a payload."""
    return _HEAD.pack(_MAGIC, len(payload), zlib.crc32(payload)) + payload


def read_records(raw: bytes) -> JournalContents:
    """Return the payloads of all complete records of a file."""
    payloads: list[bytes] = []
    at = complete_bytes = 0
    while (at := raw.find(_MAGIC, at)) >= 0:
        payload = _parse_record(raw, at)
        if payload is None:
            at += 1
            continue
        payloads.append(payload)
        at += _HEAD.size + len(payload)
        complete_bytes += _HEAD.size + len(payload)
    return JournalContents(payloads, len(raw) - complete_bytes)


def _parse_record(raw: bytes, at: int) -> bytes | None:
    """Return the payload of the record at an offset, or None where there is no complete one."""
    if len(raw) - at < _HEAD.size:
        return None
    _, length, checksum = _HEAD.unpack_from(raw, at)
    payload = raw[at + _HEAD.size : at + _HEAD.size + length]
    sound = length <= MAX_PAYLOAD_BYTES and len(payload) == length and zlib.crc32(payload) == checksum
    return payload if sound else None


class Journal:
    """The open journal of a folder; one process holds it at a time. Not for use by two threads at once."""

    def __init__(self, folder: Path) -> None:
        """Open or create the journal.

        Raises:
            JournalError: another process holds it, or the folder cannot be written.
        """
        self._folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _lock_file(folder / "lock")
        except OSError as error:
            raise _build_error(folder, "cannot be opened", error) from error
        try:
            self._fd = os.open(folder / "journal", os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            os.close(self._lock)
            raise _build_error(folder, "cannot be opened", error) from error
        self.contents = read_records(os.pread(self._fd, os.fstat(self._fd).st_size, 0))
        self.size_bytes = os.fstat(self._fd).st_size
        self.behind = self.contents.damaged_bytes > 0

    def close(self) -> None:
        """Close the files and release the lock."""
        os.close(self._fd)
        os.close(self._lock)

    def append(self, payload: bytes, *, sync: bool) -> None:
        """Append a record; with `sync`, return once it is on the disk.

        Raises:
            JournalError: the record could not be written, or the journal is behind and must be rewritten first.
        """
        if self.behind:
            raise JournalError(f"the journal {self._folder}/journal misses records; it has to be rewritten first")
        record = frame_record(payload)
        try:
            _write(self._fd, record)
            if sync:
                os.fdatasync(self._fd)
        except OSError as error:
            self.behind = True
            self._truncate()
            raise _build_error(self._folder, "cannot take a record", error) from error
        self.size_bytes += len(record)

    def rewrite(self, payloads: Iterable[bytes]) -> None:
        """Replace all records.

        Raises:
            JournalError: the new file could not be written; the old one is still in place.
        """
        new = self._folder / "journal.new"
        content = b"".join(map(frame_record, payloads))
        try:
            fd = os.open(new, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                _write(fd, content)
                os.fsync(fd)
                new.rename(self._folder / "journal")
            except OSError:
                os.close(fd)
                new.unlink(missing_ok=True)
                raise
            os.close(self._fd)
            self._fd, self.size_bytes, self.behind = fd, len(content), False
            sync_folder(self._folder)
        except OSError as error:
            raise _build_error(self._folder, "cannot be rewritten", error) from error

    def check_room(self) -> str | None:
        """Return why the next record would not fit on the disk, or None."""
        filesystem = os.fstatvfs(self._fd)
        left = filesystem.f_bavail * filesystem.f_frsize
        if left >= _NEEDED_FREE_BYTES:
            return None
        return f"the disk of {self._folder} has {left} bytes free, the journal needs {_NEEDED_FREE_BYTES}; make room"

    def _truncate(self) -> None:
        """Remove a partial record. If that fails too, reading skips it."""
        try:
            os.ftruncate(self._fd, self.size_bytes)
        except OSError:
            return


def _lock_file(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise JournalError(f"another agent holds {path}; stop it, or give this one a folder of its own") from error
    return fd


def _build_error(folder: Path, problem: str, error: OSError) -> JournalError:
    return JournalError(f"the journal in {folder} {problem}: {error.strerror}")


def _write(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
