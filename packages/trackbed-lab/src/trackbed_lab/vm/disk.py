"""The disk of an emulated server: ext4 on virtio, with all that lives through reboots and power cuts.

A real file system on a real block device, so that a power cut loses what a program did not sync, as it does on metal.
Made and read with e2fsprogs, without mounting, so nobody needs to be root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

SIZE_MIB = 2048
"""Sparse: what is not written takes no room."""

_JOURNAL_MIB = 8
"""Written when the disk is made; a journal by size would be eight times that."""

TOOLS = ("mkfs.ext4", "e2fsck", "debugfs")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_SECONDS = 60
_UNCORRECTED = 4  # e2fsck(8): file system errors left uncorrected


class DiskError(Exception):
    """The disk cannot be made or read; the message says what the tool said."""


def find_missing_tools() -> list[str]:
    """Programs needed here that this machine lacks (package e2fsprogs)."""
    return [name for name in TOOLS if shutil.which(name, path=_PATH) is None]


def make_disk(image: Path, content: Path) -> None:
    """A new disk that holds what is in the folder `content`. Raises DiskError."""
    done = _run(
        "mkfs.ext4",
        "-q",
        "-F",
        "-J",
        f"size={_JOURNAL_MIB}",
        "-d",
        str(content),
        "-E",
        "root_owner=0:0",
        str(image),
        f"{SIZE_MIB}M",
    )
    if done.returncode:
        raise DiskError(f"mkfs.ext4 {image}: {done.stderr.strip()}")


def read_file(image: Path, path: str) -> str:
    """A file on a disk that nobody has mounted, after its journal was replayed. Raises DiskError."""
    checked = _run("e2fsck", "-f", "-p", str(image))
    if checked.returncode >= _UNCORRECTED:
        raise DiskError(f"the file system of {image} is damaged: {(checked.stdout + checked.stderr).strip()}")
    done = _run("debugfs", "-R", f"cat {path}", str(image))
    if done.returncode or "File not found" in done.stderr:
        raise DiskError(f"{path} is not on {image}: {done.stderr.strip()}")
    return done.stdout


def _run(*argv: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": _PATH, "LC_ALL": "C", "DEBUGFS_PAGER": "cat"}
    try:
        return subprocess.run(  # noqa: S603 - e2fsprogs with paths of ours
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DiskError(f"{argv[0]}: {error}; the package is e2fsprogs") from error
