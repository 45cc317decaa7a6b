"""Addition and removal of Trackbed in the plugin chain of the primary network.

The file is a network configuration list (CNI specification 1.1, section 1). The Trackbed plugin is added behind all
others, and the file is replaced atomically, so a runtime that watches its folder reads either the old list or the new
one. Nothing else in the list is changed, and the order of its fields is kept.
"""

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


def find_primary(folder: Path) -> Path | None:
    """Return the configuration of the primary network: the first by name, as for containerd and CRI-O; None: none."""
    with suppress(OSError):
        return min((path for path in folder.iterdir() if path.suffix in _ENDINGS), default=None)
    return None


def chain(path: Path) -> bool:
    """Add the Trackbed plugin; return whether it was missing. Raises ChainError, OSError."""
    configuration = _read(path)
    if any(plugin.get("type") == NAME for plugin in configuration["plugins"]):
        return False
    _write(path, configuration | {"plugins": [*configuration["plugins"], {"type": NAME}]})
    return True


def unchain(path: Path) -> bool:
    """Remove the Trackbed plugin; return whether it was listed. Raises ChainError, OSError."""
    configuration = _read(path)
    plugins = [plugin for plugin in configuration["plugins"] if plugin.get("type") != NAME]
    if len(plugins) == len(configuration["plugins"]):
        return False
    _write(path, configuration | {"plugins": plugins})
    return True


def unchain_all(folder: Path) -> tuple[Path, ...]:
    """Remove the Trackbed plugin from every network configuration in a folder; return the changed files.

    Files without a list of plugins are skipped, because they cannot chain Trackbed. Raises OSError.
    """
    changed = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        with suppress(ChainError):
            if path.suffix in _ENDINGS and unchain(path):
                changed.append(path)
    return tuple(changed)


def _read(path: Path) -> dict[str, Any]:
    try:
        configuration = json.loads(path.read_bytes())
    except ValueError as error:
        raise ChainError(f"{path} is no JSON: {error}") from error
    plugins = configuration.get("plugins") if isinstance(configuration, dict) else None
    if not isinstance(plugins, list) or not all(isinstance(plugin, dict) for plugin in plugins):
        raise ChainError(f"{path} has no list of plugins; name the .conflist of the primary network")
    return dict(configuration)


def _write(path: Path, configuration: dict[str, Any]) -> None:
    """Replace the file and keep its mode. The temporary name has a suffix that no runtime reads."""
    replace(path, f"{json.dumps(configuration, indent=2)}\n".encode(), stat.S_IMODE(path.stat().st_mode))
