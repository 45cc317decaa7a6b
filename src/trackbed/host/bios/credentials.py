"""Credentials of a BMC: from the environment or a private file, never from the command line."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

USER, PASSWORD = "TRACKBED_BMC_USER", "TRACKBED_BMC_PASSWORD"


class Credentials(msgspec.Struct, frozen=True):
    """A user and a password; `repr` shows neither."""

    user: str
    password: str

    def __repr__(self) -> str:
        return "Credentials(...)"


def load_credentials(path: Path | None, environment: Mapping[str, str]) -> Credentials:
    """Read a file of two lines, user and password, or the environment variables. Raises ValueError."""
    if path is not None:
        return _read_file(path)
    user, password = environment.get(USER), environment.get(PASSWORD)
    if not user or not password:
        raise ValueError(f"no credentials for the BMCs: set {USER} and {PASSWORD}, or name a file with --credentials")
    return Credentials(user, password)


def _read_file(path: Path) -> Credentials:
    with path.open("rb") as stream:
        mode = os.fstat(stream.fileno()).st_mode
        if stat.S_IMODE(mode) & 0o077:
            raise ValueError(f"{path} can be read by others; run: chmod 600 {path}")
        lines = stream.read(4096).decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or not lines[0] or not lines[1]:  # noqa: PLR2004 - user and password
        raise ValueError(f"{path} must hold two lines: the user, then the password")
    return Credentials(lines[0], lines[1])
