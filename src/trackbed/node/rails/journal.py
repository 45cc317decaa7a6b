"""A file of records that survives the death of its writer; it knows nothing of pods.

    record    4 bytes magic | 4 bytes length | 4 bytes CRC-32 of the payload | payload        numbers are little-endian
    file      DIR/journal: records, one after another; DIR/lock: held (flock) by the one process that may write

- **Appended** records are the kernel's as soon as `append` returns: killing the writer loses none. With `sync=True`
  they are also on the disk (fdatasync).
- **A torn last record** (length, magic or checksum wrong) was never acknowledged to anybody; reading skips it.
- **A damaged record in the middle** takes only itself along: reading goes on at the next place where magic, length and
  checksum agree. So every record must make sense alone, and what the lost one said must be found out elsewhere
  (trackbed.node.rails.store asks the kernel).
- **Compaction** writes all that still counts to a new file, fsyncs it, renames it over the old one and fsyncs the
  folder: at every moment one of the two is whole and in place.
- **A full disk** makes `append` raise and leaves no half record behind. From then on the journal is `behind`: its next
  append first rewrites it, so that what could not be written then is not missing later.
"""

from __future__ import annotations

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
"""Longer records are not written, and no length above it is believed."""
_NEEDED_FREE_BYTES = 1 << 16


class JournalError(Exception):
    """The journal cannot be opened, or cannot take a record; the message says why and what to do."""


class Read(NamedTuple):
    """What a file held: payloads in order, and how many bytes belonged to no whole record."""

    payloads: list[bytes]
    damaged_bytes: int


def frame(payload: bytes) -> bytes:
    """Return the record of a payload."""
    return _HEAD.pack(_MAGIC, len(payload), zlib.crc32(payload)) + payload


def read(raw: bytes) -> Read:
    """Read all whole records of a file."""
    payloads: list[bytes] = []
    at = whole = 0
    while (at := raw.find(_MAGIC, at)) >= 0:
        payload = _at(raw, at)
        if payload is None:
            at += 1
            continue
        payloads.append(payload)
        at += _HEAD.size + len(payload)
        whole += _HEAD.size + len(payload)
    return Read(payloads, len(raw) - whole)


def _at(raw: bytes, at: int) -> bytes | None:
    if len(raw) - at < _HEAD.size:
        return None
    _, length, checksum = _HEAD.unpack_from(raw, at)
    payload = raw[at + _HEAD.size : at + _HEAD.size + length]
    sound = length <= MAX_PAYLOAD_BYTES and len(payload) == length and zlib.crc32(payload) == checksum
    return payload if sound else None


class Journal:
    """The open journal of a folder; one process holds it at a time. Not for use by two threads at once."""

    def __init__(self, folder: Path) -> None:
        """Open or create it.

        Raises:
            JournalError: another process holds it, or the folder cannot be written.
        """
        self._folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _locked(folder / "lock")
        except OSError as error:
            raise _failed(folder, "cannot be opened", error) from error
        try:
            self._fd = os.open(folder / "journal", os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            os.close(self._lock)
            raise _failed(folder, "cannot be opened", error) from error
        self.found = read(_all(self._fd))
        self.bytes = os.fstat(self._fd).st_size
        self.behind = self.found.damaged_bytes > 0

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._fd)
        os.close(self._lock)

    def append(self, payload: bytes, *, sync: bool) -> None:
        """Add a record; `sync`: return when it is on the disk.

        Raises:
            JournalError: it could not be written, or the journal is behind (then `rewrite` it first).
        """
        if self.behind:
            raise JournalError(f"the journal {self._folder}/journal misses records; it has to be rewritten first")
        record = frame(payload)
        try:
            _write(self._fd, record)
            if sync:
                os.fdatasync(self._fd)
        except OSError as error:
            self.behind = True
            self._cut()
            raise _failed(self._folder, "cannot take a record", error) from error
        self.bytes += len(record)

    def rewrite(self, payloads: Iterable[bytes]) -> None:
        """Replace all records by these.

        Raises:
            JournalError: the new file could not be written; the old one is still in place.
        """
        new = self._folder / "journal.new"
        content = b"".join(map(frame, payloads))
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
            self._fd, self.bytes, self.behind = fd, len(content), False
            sync_folder(self._folder)
        except OSError as error:
            raise _failed(self._folder, "cannot be rewritten", error) from error

    def room(self) -> str | None:
        """Why the next record would not fit on the disk, or None."""
        free = os.fstatvfs(self._fd)
        left = free.f_bavail * free.f_frsize
        if left >= _NEEDED_FREE_BYTES:
            return None
        return f"the disk of {self._folder} has {left} bytes free, the journal needs {_NEEDED_FREE_BYTES}; make room"

    def _cut(self) -> None:
        """Take half a record away again; if even that fails, reading will skip it."""
        try:
            os.ftruncate(self._fd, self.bytes)
        except OSError:
            return


def _locked(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise JournalError(f"another agent holds {path}; stop it, or give this one a folder of its own") from error
    return fd


def _failed(folder: Path, what: str, error: OSError) -> JournalError:
    return JournalError(f"the journal in {folder} {what}: {error.strerror}")


def _all(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)


def _write(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
