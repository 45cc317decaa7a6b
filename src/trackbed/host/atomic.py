"""Atomic replacement of a file. Imports no other module of Trackbed, so that the node daemon starts fast."""

from __future__ import annotations

import os
from pathlib import Path


def replace(path: Path, content: bytes, permissions: int) -> None:
    """Replace a file atomically: write and sync a temporary file, then rename it. OSError leaves the file unchanged."""
    temporary = path.with_name(f".{path.name}.trackbed")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, permissions)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(stream.fileno(), permissions)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder's entries to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
