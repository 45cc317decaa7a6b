"""Replacing a file in one step: a reader sees the old text or the new one."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def replace(path: Path, content: bytes) -> None:
    """Write beside the file, then rename; mode is kept, a symbolic link stays one. OSError if that fails."""
    target = path.resolve()
    mode = stat.S_IMODE(target.stat().st_mode)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(mode)
        Path(name).replace(target)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
