"""Puts the agent together and runs it until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from pathlib import Path

from trackbed.agent.conflicts import Conflicts
from trackbed.agent.handlers import Handlers
from trackbed.agent.journal import Journal
from trackbed.agent.phases import Clock
from trackbed.agent.server import Server
from trackbed.agent.store import Store
from trackbed.plan.plan import NodePlan

_log = logging.getLogger(__name__)

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def run(node: NodePlan, state: Path, socket: Path, ready: Callable[[], None], clock: Clock = time.perf_counter) -> None:
    """Serve one node until SIGTERM or SIGINT.

    Args:
        node: what there is to hand out.
        state: folder of the journal.
        socket: where the executable asks.
        ready: called once requests are taken.
        clock: seconds; read at the end of each phase of a request.

    Raises:
        JournalError: another agent runs with this state, or it cannot be written.
        OSError: the socket cannot be made.
    """
    store = Store(Journal(state))
    try:
        conflicts = Conflicts()
        handlers = Handlers(node, store, conflicts, _BOOT_ID.read_text().strip())
        handlers.reconcile()
        asyncio.run(_serve(Server(node, handlers, store, conflicts, clock), socket, ready))
    finally:
        store.close()


async def _serve(server: Server, socket: Path, ready: Callable[[], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await server.serve(socket, ready, stop)
    _log.info("stopped")
