"""The disk of an emulated server: ext4 on virtio, with the folders that persist across reboots and power cuts.

It is a real file system on a real block device, so a power cut loses unsynced writes as on metal. It is created and
read with e2fsprogs, which need neither a mount nor root.
"""

import os
import shutil
import subprocess
from pathlib import Path

from trackbed_lab.processes import run_program

SIZE_MIB = 8192
"""The image is sparse: only written blocks take space."""

_JOURNAL_MIB = 8
"""mkfs writes the whole journal; the default for this size is eight times larger."""

TOOLS = ("mkfs.ext4", "e2fsck", "debugfs")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_SECONDS = 60
_UNCORRECTED = 4  # e2fsck(8): file system errors left uncorrected


class DiskError(Exception):
    """The disk cannot be created or read; the message has the tool's error."""


def find_missing_tools() -> list[str]:
    """Return the programs of e2fsprogs that this machine lacks."""
    return [name for name in TOOLS if shutil.which(name, path=_PATH) is None]


def make_disk(image: Path, content: Path) -> None:
    """Create a disk with the files of the folder `content`. Raises DiskError."""
    process = _run_tool(
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
    if process.returncode:
        raise DiskError(f"mkfs.ext4 {image}: {process.stderr.strip()}")


def read_file(image: Path, path: str) -> str:
    """Replay the journal of an unmounted disk, then return the content of one of its files. Raises DiskError."""
    check = _run_tool("e2fsck", "-f", "-p", str(image))
    if check.returncode >= _UNCORRECTED:
        raise DiskError(f"the file system of {image} is damaged: {(check.stdout + check.stderr).strip()}")
    process = _run_tool("debugfs", "-R", f"cat {path}", str(image))
    if process.returncode or "File not found" in process.stderr:
        raise DiskError(f"{path} is not on {image}: {process.stderr.strip()}")
    return process.stdout


def _run_tool(*argv: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": _PATH, "LC_ALL": "C", "DEBUGFS_PAGER": "cat"}
    return run_program(
        argv, _SECONDS, lambda message: DiskError(f"{message}; the package is e2fsprogs"), variables=variables
    )
