"""An OpenSSH server for tests: the machine's own, or Debian's package, fetched and unpacked and not installed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from trackbed_lab.vm import apt

_HOW = "install openssh-server, or let this machine's apt reach Debian's archive"


def sshd() -> tuple[str, dict[str, str]]:
    """Its program and what its environment needs; skips where there is none (fails with CI=true)."""
    program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is not None:
        return program, {}
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trackbed" / "sshd"
    unpacked = cache / "unpacked"
    if not (unpacked / "complete").exists():
        try:
            _fetch(cache, unpacked)
        except apt.AptError as error:
            pytest.skip(f"no sshd here and none to fetch: {error}; {_HOW}")
    libraries = sorted({str(path.parent) for path in unpacked.rglob("*.so.*")})
    return str(unpacked / "usr/sbin/sshd"), {"LD_LIBRARY_PATH": ":".join(libraries)}


def _fetch(cache: Path, unpacked: Path) -> None:
    missing = apt.find_missing_tools()
    if missing:
        raise apt.AptError(f"{', '.join(missing)} not found")
    archive = apt.prepare_apt(cache, apt.read_sources(), fresh=False)
    archive.update()
    for package in archive.fetch(["openssh-server"]):
        apt.unpack(package, unpacked)
    (unpacked / "complete").touch()
