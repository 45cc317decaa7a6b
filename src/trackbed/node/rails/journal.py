"""A crash-safe file of records, independent of their content.

    record    see `host.journal_records`, which has the format and reads it
    file      DIR/journal: records, one after another; DIR/lock: held (flock) by the one process that may write

- **Appended** records are in the page cache as soon as `append` returns: killing the writer loses none. With
  `sync=True` they are also on the disk (fdatasync).
- **A torn last record** (length, magic or checksum wrong) was never acknowledged; reading skips it.
- **A damaged record in the middle** is skipped alone: reading continues at the next offset where magic, length and
  checksum agree. Every record must therefore be meaningful alone, and the content of a lost one must be recovered
  elsewhere (trackbed.node.rails.store queries the kernel).
- **Compaction** writes all current records to a new file, fsyncs it, renames it over the old one and fsyncs the
  folder: at every moment one of the two is complete and in place.
- **A full disk** makes `append` raise and leaves no partial record. The journal then refuses records until it is
  rewritten, so that the failed record is not missing later.
"""

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from trackbed.host.atomic import sync_folder
from trackbed.host.journal_records import MAX_JOURNAL_BYTES, MAX_PAYLOAD_BYTES, frame_record, parse_records

_NEEDED_FREE_BYTES = 1 << 16


class JournalError(Exception):
    """The journal cannot be opened or written; the message says why and what to do."""


class Journal:
    """The open journal of a folder; one process holds it at a time. It is not thread-safe."""

    def __init__(self, folder: Path) -> None:
        """Open or create the journal.

        Raises:
            JournalError: another process holds it, or the folder cannot be written.
        """
        self.folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _lock_file(folder / "lock")
        except OSError as error:
            raise _build_journal_error(folder, "cannot be opened", error) from error
        try:
            self._fd = os.open(folder / "journal", os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            os.close(self._lock)
            raise _build_journal_error(folder, "cannot be opened", error) from error
        self.size_bytes = os.fstat(self._fd).st_size
        self.contents = parse_records(os.pread(self._fd, min(self.size_bytes, MAX_JOURNAL_BYTES), 0))
        self.needs_rewrite = self.contents.damaged_bytes > 0 or self.size_bytes > MAX_JOURNAL_BYTES

    def close(self) -> None:
        """Close the files and release the lock. Whoever still appends gets a JournalError."""
        descriptors = self._fd, self._lock
        self._fd = self._lock = -1  # another file may get these numbers
        for descriptor in descriptors:
            os.close(descriptor)

    def append(self, payload: bytes, *, sync: bool) -> None:
        """Append a record; with `sync`, return once it is on the disk.

        Raises:
            JournalError: the record is too long or could not be written, or the journal must be rewritten first.
        """
        if self.needs_rewrite:
            raise JournalError(f"the journal {self.folder}/journal misses records; it has to be rewritten first")
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise JournalError(f"a record of {len(payload)} bytes is longer than the limit, {MAX_PAYLOAD_BYTES}")
        record = frame_record(payload)
        try:
            _write_all(self._fd, record)
            if sync:
                os.fdatasync(self._fd)
        except OSError as error:
            self.needs_rewrite = True
            with suppress(OSError):  # reading skips the partial record if it cannot be removed
                os.ftruncate(self._fd, self.size_bytes)
            raise _build_journal_error(self.folder, "cannot take a record", error) from error
        self.size_bytes += len(record)

    def rewrite(self, payloads: Iterable[bytes]) -> None:
        """Replace all records of the journal.

        Raises:
            JournalError: the new file could not be written; the old one is still in place.
        """
        new = self.folder / "journal.new"
        content = b"".join(map(frame_record, payloads))
        try:
            fd = os.open(new, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                _write_all(fd, content)
                os.fsync(fd)
                new.rename(self.folder / "journal")
            except OSError:
                os.close(fd)
                new.unlink(missing_ok=True)
                raise
            os.close(self._fd)
            self._fd, self.size_bytes, self.needs_rewrite = fd, len(content), False
            sync_folder(self.folder)
        except OSError as error:
            raise _build_journal_error(self.folder, "cannot be rewritten", error) from error

    def check_free_space(self) -> str | None:
        """Return why the next record would not fit on the disk, or None if it would."""
        filesystem = os.fstatvfs(self._fd)
        left = filesystem.f_bavail * filesystem.f_frsize
        if left >= _NEEDED_FREE_BYTES:
            return None
        return f"the disk of {self.folder} has {left} bytes free, the journal needs {_NEEDED_FREE_BYTES}; make room"


def _lock_file(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise JournalError(f"another agent holds {path}; stop it, or give this one a folder of its own") from error
    return fd


def _build_journal_error(folder: Path, problem: str, error: OSError) -> JournalError:
    return JournalError(f"the journal in {folder} {problem}: {error.strerror}")


def _write_all(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
