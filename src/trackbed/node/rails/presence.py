"""Keeps the CNI executable installed and chained behind the primary network's plugins.

It is checked when the agent starts to serve and every LOOK_SECONDS, because another program may rewrite the
configuration, and a runtime that reads it without Trackbed silently gives pods no rails. Correct files are not touched.
Everything is left in place when the agent stops: a pod that starts then must fail and be retried, not run without its
rails.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trackbed.node.rails.chain import ChainError, chain, find_primary
from trackbed.node.rails.install import install

_log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class CniFolders:
    """The folders that the runtime reads."""

    programs: Path
    """Folder of CNI executables, /opt/cni/bin."""
    networks: Path
    """Folder of network configurations, /etc/cni/net.d."""


async def keep_chained(folders: CniFolders, socket: Path, stop: asyncio.Event) -> None:
    """Install the executable, then keep it chained until `stop`. Raises OSError where it cannot be installed."""
    install(folders.programs, socket)
    reported = ""
    while not stop.is_set():
        problem = await asyncio.to_thread(_ensure_chained, folders.networks)
        if problem and problem != reported:
            _log.warning("%s", problem)
        reported = problem
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), LOOK_SECONDS)


def _ensure_chained(networks: Path) -> str:
    """Add Trackbed to the primary network's chain if it is missing; return why it cannot be, or ""."""
    path = find_primary(networks)
    if path is None:
        return f"{networks} has no network configuration yet: pods get no network, and no rails, until it has"
    try:
        if chain(path):
            _log.info("%s calls us now", path)
    except (ChainError, OSError) as error:
        return f"the runtime does not call us: {error}"
    return ""
