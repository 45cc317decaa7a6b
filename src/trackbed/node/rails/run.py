"""Puts the agent together and runs it until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.boot_id import read_boot_id
from trackbed.node.rails.attacher import Attacher
from trackbed.node.rails.conflicts import Conflicts
from trackbed.node.rails.devices import read_offer
from trackbed.node.rails.handlers import Handlers, ReadDevices
from trackbed.node.rails.journal import Journal
from trackbed.node.rails.kubelet.messages import Offer
from trackbed.node.rails.phases import Clock
from trackbed.node.rails.presence import CniFolders, keep_chained
from trackbed.node.rails.server import Server
from trackbed.node.rails.store import Store
from trackbed.node.rails.watch import Watch

_log = logging.getLogger(__name__)

PLAN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class AgentPaths:
    """Where things are on the node."""

    state: Path
    """Folder of the journal."""
    socket: Path
    """Where the executable asks."""
    kubelet: Path | None = None
    """The kubelet's folder, /var/lib/kubelet: rails are offered to it and pods get those that it gave them. None:
    there is no kubelet, and every pod gets all rails."""
    cdi: Path = Path("/var/run/cdi")
    """Where the kubelet's runtime reads CDI specifications."""
    cni: CniFolders | None = None
    """Where to keep the CNI executable installed and chained; None: that is somebody else's doing."""


def run_agent(
    node: NodePlan,
    places: AgentPaths,
    ready: Callable[[], None],
    changed: Callable[[], bool] = lambda: False,
    clock: Clock = time.perf_counter,
) -> bool:
    """Serve one node until SIGTERM or SIGINT, or its plan has changed; whether that is so.

    Args:
        node: what there is to hand out.
        places: where journal, socket and kubelet are.
        ready: called once requests are taken.
        changed: whether there is another plan, asked every PLAN_SECONDS.
        clock: seconds; read at the end of each phase of a request.

    Raises:
        JournalError: another agent runs with this state, or it cannot be written.
        OSError: the socket cannot be made.
    """
    with ExitStack() as stack:
        store = Store(Journal(places.state))
        stack.callback(store.close)
        conflicts = Conflicts()
        attacher = Attacher(node, store, read_boot_id(), places.cdi if places.kubelet else None)
        stack.callback(attacher.close)
        attacher.reconcile()
        devices_of = _devices_of(places.kubelet) if places.kubelet else None
        handlers = Handlers(node, store, conflicts, attacher, devices_of)
        server = Server(node, handlers, store, conflicts, clock)

        def looked() -> Offer:
            attacher.restore_late()
            return read_offer(node, store.list_moved())

        serving = _Serving(server, places, looked, changed)
        return asyncio.run(_serve(serving, ready))


def _devices_of(kubelet: Path) -> ReadDevices:
    from trackbed.node.rails.kubelet.pods import PodResources  # noqa: PLC0415 - gRPC takes 30 MB, which only nodes with a kubelet pay

    return PodResources(kubelet / "pod-resources/kubelet.sock").read_devices


async def _offer(kubelet: Path, looked: Callable[[], Offer], stop: asyncio.Event) -> None:
    from trackbed.node.rails.kubelet.plugin import Plugins  # noqa: PLC0415 - as above

    with closing(Watch(looked)) as watch:
        await Plugins(kubelet / "device-plugins", watch).run(stop)


@dataclass(frozen=True, slots=True)
class _Serving:
    server: Server
    places: AgentPaths
    looked: Callable[[], Offer]
    changed: Callable[[], bool]


async def _serve(it: _Serving, ready: Callable[[], None]) -> bool:
    stop = asyncio.Event()
    places = it.places
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with asyncio.TaskGroup() as group:
        if places.kubelet is not None:
            group.create_task(_offer(places.kubelet, it.looked, stop))
        if places.cni is not None:
            group.create_task(keep_chained(places.cni, places.socket, stop))
        watching = group.create_task(_until_changed(it.changed, stop))
        await it.server.serve(places.socket, ready, stop)
    _log.info("stopped")
    return watching.result()


async def _until_changed(changed: Callable[[], bool], stop: asyncio.Event) -> bool:
    """Whether the plan changed before anything else had the agent stop."""
    while not stop.is_set():
        if changed():
            _log.info("the plan has changed; taking the new one")
            stop.set()
            return True
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), PLAN_SECONDS)
    return False
