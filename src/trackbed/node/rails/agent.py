"""The agent of a node: assembles its parts, and runs until a signal arrives or the plan changes."""

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
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
from trackbed.node.rails.rdma import list_shared_device_files
from trackbed.node.rails.server import Server
from trackbed.node.rails.store import Store
from trackbed.node.rails.watch import Watch

_log = logging.getLogger(__name__)

PLAN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class AgentPaths:
    """The files and folders of the agent on the node."""

    state: Path
    """Folder of the journal."""
    socket: Path
    """Socket for the CNI executable."""
    kubelet: Path | None = None
    """The kubelet's folder, /var/lib/kubelet. Rails are offered to the kubelet, and pods get those that it allocates.
    Without a kubelet (None) every pod gets all rails."""
    cdi: Path = Path("/var/run/cdi")
    """The runtime's folder of CDI specifications."""
    cni: CniFolders | None = None
    """Folders in which the CNI executable is kept installed and chained; None if it is installed by other means."""


def run_agent(
    node: NodePlan,
    paths: AgentPaths,
    report_ready: Callable[[], None],
    has_plan_changed: Callable[[], bool] = lambda: False,
    clock: Clock = time.perf_counter,
) -> bool:
    """Serve one node until SIGTERM, SIGINT or a change of the plan; return whether the plan changed.

    Args:
        node: the plan of the node.
        paths: journal, socket and folders of the kubelet and the runtime.
        report_ready: called once requests are accepted.
        has_plan_changed: called every PLAN_SECONDS.
        clock: returns seconds; called at the end of each phase of a request.

    Raises:
        JournalError: another agent holds the journal, or the journal cannot be written.
        OSError: the socket cannot be created, or the CNI executable cannot be installed.
    """
    with ExitStack() as stack:
        store = Store(Journal(paths.state))
        stack.callback(store.close)
        conflicts = Conflicts()
        attacher = Attacher(node, store, read_boot_id(), paths.cdi if paths.kubelet else None)
        stack.callback(attacher.close)
        attacher.reconcile()
        read_devices = _connect_pod_resources(paths.kubelet) if paths.kubelet else None
        handlers = Handlers(node, store, conflicts, attacher, read_devices)
        server = Server(node, handlers, store, conflicts, clock)

        def read_current_offer() -> Offer:
            attacher.restore_returned_devices()
            return read_offer(node, store.map_moved_devices())

        try:
            offer_devices = partial(_offer_devices, node, paths.kubelet, read_current_offer) if paths.kubelet else None
            return asyncio.run(_run_tasks(server, paths, offer_devices, report_ready, has_plan_changed))
        except ExceptionGroup as group:  # a task group wraps even a single exception
            raise group.exceptions[0] from group


def _connect_pod_resources(kubelet: Path) -> ReadDevices:
    from trackbed.node.rails.kubelet.pods import PodResources  # noqa: PLC0415 - gRPC takes 30 MB, only with a kubelet

    return PodResources(kubelet / "pod-resources/kubelet.sock").read_devices


async def _offer_devices(
    node: NodePlan, kubelet: Path, read_current_offer: Callable[[], Offer], stop: asyncio.Event
) -> None:
    from trackbed.node.rails.kubelet.plugin import Plugins  # noqa: PLC0415 - as above

    def list_files(rail: int) -> tuple[str, ...]:
        port = node.find_port(rail)
        return list_shared_device_files(port, node.common) if port else ()

    with closing(Watch(read_current_offer)) as watch:
        await Plugins(kubelet / "device-plugins", watch, list_files).run(stop)


async def _run_tasks(
    server: Server,
    paths: AgentPaths,
    offer_devices: Callable[[asyncio.Event], Coroutine[None, None, None]] | None,
    report_ready: Callable[[], None],
    has_plan_changed: Callable[[], bool],
) -> bool:
    """Run the tasks of the agent until a signal arrives or the plan changes; return whether the plan changed."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with asyncio.TaskGroup() as group:
        if offer_devices is not None:
            group.create_task(offer_devices(stop))
        if paths.cni is not None:
            group.create_task(keep_chained(paths.cni, paths.socket, stop))
        plan_watch = group.create_task(_watch_plan(has_plan_changed, stop))
        await server.serve(paths.socket, report_ready, stop)
    _log.info("stopped")
    return plan_watch.result()


async def _watch_plan(has_plan_changed: Callable[[], bool], stop: asyncio.Event) -> bool:
    """Set `stop` when the plan changes; return whether the plan has changed."""
    while not stop.is_set():
        if has_plan_changed():
            _log.info("the plan has changed; taking the new one")
            stop.set()
            return True
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), PLAN_SECONDS)
    return False
