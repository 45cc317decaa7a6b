"""The attributes before the first apply: one file for each node, for undo."""

from __future__ import annotations

from pathlib import Path

import msgspec

from trackbed.host.atomic import replace
from trackbed.host.bios.compare import Value


def load(folder: Path, node: str) -> dict[str, Value]:
    """Return the recorded values of a node, empty without a record. Raises ValueError on an invalid file."""
    path = folder / f"{node}.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Value])
    except FileNotFoundError:
        return {}
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path} is no record of BIOS attributes ({error}); move it away to go on") from error


def add(folder: Path, node: str, before: dict[str, Value]) -> None:
    """Record values durably; values that are already recorded are older and kept."""
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / f"{node}.json", msgspec.json.encode(before | load(folder, node)), 0o600)


def drop(folder: Path, node: str) -> None:
    """Delete a node's record."""
    (folder / f"{node}.json").unlink(missing_ok=True)
