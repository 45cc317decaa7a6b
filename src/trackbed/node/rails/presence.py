"""Keeps the CNI executable installed, and chained after the plugins of the primary network.

The configuration is checked when the agent starts to serve and every CHECK_SECONDS, because another program may rewrite
it, and a runtime that reads it without Trackbed silently gives pods no rails. Correct files are not touched.
Everything is left in place when the agent stops: a pod that starts then must fail and be retried, not run without its
rails.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trackbed.node.rails.chain import ChainError, add_to_chain, find_primary_network
from trackbed.node.rails.install import NAME, install_executable

_log = logging.getLogger(__name__)

CHECK_SECONDS = 2.0
_ELSEWHERE = (
    "k3s has its own in /var/lib/rancher/k3s/agent/etc/cni/net.d (start it with --flannel-backend=none and install a "
    "primary network), OpenShift in /etc/kubernetes/cni/net.d (take stack sriov-operator)"
)
"""Kubernetes whose primary network the agent is not chained to (get in pkg/agent/config/config.go of k3s)."""


@dataclass(frozen=True, slots=True)
class CniFolders:
    """The folders from which the runtime reads CNI executables and network configurations."""

    programs: Path
    """Folder of CNI executables, /opt/cni/bin."""
    networks: Path
    """Folder of network configurations, /etc/cni/net.d."""


async def keep_chained(folders: CniFolders, socket: Path, stop: asyncio.Event) -> None:
    """Install the executable, then keep it there and chained until `stop`. Raises OSError if it cannot be installed."""
    install_executable(folders.programs, socket)
    reported = ""
    while not stop.is_set():
        problem = await asyncio.to_thread(_ensure_called, folders, socket)
        if problem and problem != reported:
            _log.warning("%s", problem)
        reported = problem
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), CHECK_SECONDS)


def _ensure_called(folders: CniFolders, socket: Path) -> str:
    """Install the executable again if another program removed it, then chain it; return what is wrong, or ""."""
    if not (folders.programs / NAME).exists():
        try:
            install_executable(folders.programs, socket)
        except OSError as error:
            return f"{folders.programs / NAME} was removed, so no pod starts, and it cannot be installed again: {error}"
        _log.warning("%s was removed by another program and is installed again", folders.programs / NAME)
    return _ensure_chained(folders.networks)


def _ensure_chained(network_folder: Path) -> str:
    """Add Trackbed to the primary network's chain if it is missing; return why it cannot be, or ""."""
    path = find_primary_network(network_folder)
    if path is None:
        missing = f"{network_folder} has no network configuration yet: pods get no rails until it has"
        return f"{missing}; {_ELSEWHERE}"
    try:
        if add_to_chain(path):
            _log.info("%s calls us now", path)
    except (ChainError, OSError) as error:
        return f"the runtime does not call us: {error}"
    return ""
