"""The files of `trackbed bios`: vendors' profiles, credentials, and the attributes before the first apply."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import msgspec
import yaml

from trackbed.host.atomic import replace
from trackbed.host.bios.compare import Profile, Value

USER, PASSWORD = "TRACKBED_BMC_USER", "TRACKBED_BMC_PASSWORD"
"""Environment variables that hold the credentials."""


def load_profile(vendor: str) -> Profile:
    """Load the profile of dell, hpe, lenovo or supermicro, which maps wanted settings to attributes."""
    text = files("trackbed.host.bios").joinpath("profiles", f"{vendor}.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), Profile)


class Credentials(msgspec.Struct, frozen=True):
    """User name and password for the BMCs. `repr` shows neither."""

    user: str
    password: str

    def __repr__(self) -> str:
        return "Credentials(...)"


def load_credentials(path: Path | None, environment: Mapping[str, str]) -> Credentials:
    """Read a file of two lines, user and password, or the environment variables if `path` is None.

    Raises ValueError if they are missing, or if others can read the file.
    """
    if path is not None:
        return _read_credentials(path)
    user, password = environment.get(USER), environment.get(PASSWORD)
    if not user or not password:
        raise ValueError(f"no credentials for the BMCs: set {USER} and {PASSWORD}, or name a file with --credentials")
    return Credentials(user, password)


def _read_credentials(path: Path) -> Credentials:
    with path.open("rb") as stream:
        mode = os.fstat(stream.fileno()).st_mode
        if stat.S_IMODE(mode) & 0o077:
            raise ValueError(f"{path} can be read by others; run: chmod 600 {path}")
        lines = stream.read(4096).decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or not lines[0] or not lines[1]:  # noqa: PLR2004 - user and password
        raise ValueError(f"{path} must hold two lines: the user, then the password")
    return Credentials(lines[0], lines[1])


def load_record(folder: Path, node: str) -> dict[str, Value]:
    """Return the recorded attributes of a node, empty without a record. Raises ValueError on an invalid file."""
    path = folder / f"{node}.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Value])
    except FileNotFoundError:
        return {}
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path} is no record of BIOS attributes ({error}); move it away to go on") from error


def extend_record(folder: Path, node: str, attributes: dict[str, Value]) -> None:
    """Record attributes durably. Attributes that are already recorded keep their older values."""
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / f"{node}.json", msgspec.json.encode(attributes | load_record(folder, node)), 0o600)


def delete_record(folder: Path, node: str) -> None:
    """Delete a node's record, if there is one."""
    (folder / f"{node}.json").unlink(missing_ok=True)
