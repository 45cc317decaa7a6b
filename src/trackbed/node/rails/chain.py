"""Addition and removal of Trackbed in the plugin chain of the primary network.

The file is a network configuration list (CNI specification 1.1, section 1). The Trackbed plugin is added after all
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
from trackbed.node.rails.protocol import VERSIONS

_ENDINGS = {".conf", ".conflist", ".json"}


class ChainError(Exception):
    """The file is not a network configuration list; the message says why."""


def find_primary_network(network_folder: Path) -> Path | None:
    """Return the configuration file of the primary network, or None if there is none.

    It is the first file by name, as for containerd and CRI-O.
    """
    with suppress(OSError):
        return min((path for path in network_folder.iterdir() if path.suffix in _ENDINGS), default=None)
    return None


def add_to_chain(conflist: Path) -> bool:
    """Add the Trackbed plugin to a configuration file; return whether it was missing. Raises ChainError, OSError."""
    configuration = _read_configuration(conflist)
    _check_version(conflist, configuration)
    if any(plugin.get("type") == NAME for plugin in configuration["plugins"]):
        return False
    _replace_configuration(conflist, configuration | {"plugins": [*configuration["plugins"], {"type": NAME}]})
    return True


def remove_from_chain(conflist: Path) -> bool:
    """Remove the Trackbed plugin from a configuration file; return whether it was there. Raises ChainError, OSError."""
    configuration = _read_configuration(conflist)
    plugins = [plugin for plugin in configuration["plugins"] if plugin.get("type") != NAME]
    if len(plugins) == len(configuration["plugins"]):
        return False
    _replace_configuration(conflist, configuration | {"plugins": plugins})
    return True


def remove_from_all_chains(network_folder: Path) -> tuple[Path, ...]:
    """Remove the Trackbed plugin from every network configuration in a folder; return the changed files.

    Files without a list of plugins are skipped, because they cannot chain Trackbed. Raises OSError.
    """
    changed = []
    for path in sorted(network_folder.iterdir()) if network_folder.is_dir() else []:
        with suppress(ChainError):
            if path.suffix in _ENDINGS and remove_from_chain(path):
                changed.append(path)
    return tuple(changed)


def _read_configuration(conflist: Path) -> dict[str, Any]:
    try:
        configuration = json.loads(conflist.read_bytes())
    except ValueError as error:
        raise ChainError(f"{conflist} is no JSON: {error}") from error
    plugins = configuration.get("plugins") if isinstance(configuration, dict) else None
    if not isinstance(plugins, list) or not all(isinstance(plugin, dict) for plugin in plugins):
        raise ChainError(f"{conflist} has no list of plugins; name the .conflist of the primary network")
    return dict(configuration)


def _check_version(conflist: Path, configuration: dict[str, Any]) -> None:
    """Raise ChainError for a list of a version in which the plugin could not answer: no pod would start."""
    further = configuration.get("cniVersions")
    versions = [configuration.get("cniVersion"), *(further if isinstance(further, list) else ())]
    if not any(version in VERSIONS for version in versions):
        raise ChainError(
            f"{conflist} has cniVersion {json.dumps(versions[0])}, in which Trackbed cannot be called; give it one of "
            + ", ".join(VERSIONS)
        )


def _replace_configuration(conflist: Path, configuration: dict[str, Any]) -> None:
    """Replace the file and keep its mode. The suffix of the temporary file is one that no runtime reads."""
    replace(conflist, f"{json.dumps(configuration, indent=2)}\n".encode(), stat.S_IMODE(conflist.stat().st_mode))
