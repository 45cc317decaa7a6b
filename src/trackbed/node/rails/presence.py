"""Keeps the agent in the way of the runtime: its executable in place, called last by the primary network's plugins.

Looked at when the agent begins to serve and every LOOK_SECONDS: another program may write the configuration anew, and a
runtime that reads it without us gives pods no rails, silently. What is there as it should be is not touched. When the
agent stops it all stays: a pod that starts meanwhile must fail and be tried again, not run without its rails.
"""

from __future__ import annotations

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
    """Where the runtime looks."""

    programs: Path
    """Folder of CNI executables, /opt/cni/bin."""
    networks: Path
    """Folder of network configurations, /etc/cni/net.d."""


async def keep_chained(presence: CniFolders, socket: Path, stop: asyncio.Event) -> None:
    """Install the executable, then see that it is called until `stop`. OSError if it cannot be installed."""
    install(presence.programs, socket)
    told = ""
    while not stop.is_set():
        said = await asyncio.to_thread(_look, presence.networks)
        if said != told:
            _log.warning("%s", said) if said else None
            told = said
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), LOOK_SECONDS)


def _look(networks: Path) -> str:
    """Chain us where we are not; why that cannot be, empty if all is well."""
    path = find_primary(networks)
    if path is None:
        return f"{networks} has no network configuration yet: pods get no network, and no rails, until it has"
    try:
        if chain(path):
            _log.info("%s calls us now", path)
    except (ChainError, OSError) as error:
        return f"the runtime does not call us: {error}"
    return ""
