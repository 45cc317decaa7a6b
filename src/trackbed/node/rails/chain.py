"""Puts Trackbed into the chain of the primary network's plugins, and takes it out again.

A network configuration list (CNI specification 1.1, section 1) is read, our plugin is added behind all others, and the
file is replaced in one step: a runtime that watches its folder sees the old list or the new one. Nothing else of the
list is changed; its order of fields stays.
"""

from __future__ import annotations

import json
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from trackbed.host.atomic import replace
from trackbed.node.rails.install import NAME

_ENDINGS = {".conf", ".conflist", ".json"}


class ChainError(Exception):
    """The file cannot be chained into; the message says why."""


def primary(folder: Path) -> Path | None:
    """The configuration of the primary network: the first by name, as containerd and CRI-O take it; None: none yet."""
    with suppress(OSError):
        found = (path for path in folder.iterdir() if path.suffix in _ENDINGS)
        return min(found, default=None)
    return None


def chain(path: Path) -> bool:
    """Add our plugin; whether it was not there yet. Raises ChainError, OSError."""
    found = _read(path)
    if any(plugin.get("type") == NAME for plugin in found["plugins"]):
        return False
    _write(path, found | {"plugins": [*found["plugins"], {"type": NAME}]})
    return True


def unchain(path: Path) -> bool:
    """Take our plugin out; whether it was there. Raises ChainError, OSError."""
    found = _read(path)
    others = [plugin for plugin in found["plugins"] if plugin.get("type") != NAME]
    if len(others) == len(found["plugins"]):
        return False
    _write(path, found | {"plugins": others})
    return True


def unchain_all(folder: Path) -> tuple[Path, ...]:
    """Take our plugin out of every network configuration in a folder; those where it was. Raises OSError.

    What is no list of plugins calls nobody after others, so not us.
    """
    found = sorted(path for path in folder.iterdir() if path.suffix in _ENDINGS) if folder.is_dir() else []
    return tuple(path for path in found if _unchained(path))


def _unchained(path: Path) -> bool:
    try:
        return unchain(path)
    except ChainError:
        return False


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise ChainError(f"{path} is no JSON: {error}") from error
    plugins = found.get("plugins") if isinstance(found, dict) else None
    if not isinstance(plugins, list) or not all(isinstance(one, dict) for one in plugins):
        raise ChainError(f"{path} has no list of plugins; name the .conflist of the primary network")
    return dict(found)


def _write(path: Path, wanted: dict[str, Any]) -> None:
    """Replace the file, with its mode; no runtime reads the name that it has until then."""
    replace(path, f"{json.dumps(wanted, indent=2)}\n".encode(), stat.S_IMODE(path.stat().st_mode))
