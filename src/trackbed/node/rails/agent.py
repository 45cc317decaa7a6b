"""The agent of a node: assembly of its parts, and its run until a signal or a new plan."""

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
    """The files and folders of the agent on the node."""

    state: Path
    """Folder of the journal."""
    socket: Path
    """Socket for the CNI executable."""
    kubelet: Path | None = None
    """The kubelet's folder, /var/lib/kubelet: rails are offered to it, and pods get the rails it allocated. None: there
    is no kubelet, and every pod gets all rails."""
    cdi: Path = Path("/var/run/cdi")
    """The runtime's folder of CDI specifications."""
    cni: CniFolders | None = None
    """Folders in which the CNI executable is kept installed and chained; None: it is installed by other means."""


def run_agent(
    node: NodePlan,
    paths: AgentPaths,
    report_ready: Callable[[], None],
    has_changed: Callable[[], bool] = lambda: False,
    clock: Clock = time.perf_counter,
) -> bool:
    """Serve one node until SIGTERM, SIGINT or a new plan; return whether there is a new plan.

    Args:
        node: the plan of the node.
        paths: journal, socket and folders of the kubelet and the runtime.
        report_ready: called once requests are accepted.
        has_changed: returns whether there is a new plan; called every PLAN_SECONDS.
        clock: seconds; read at the end of each phase of a request.

    Raises:
        JournalError: another agent runs with this state, or it cannot be written.
        OSError: the socket cannot be created.
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
            attacher.restore_late()
            return read_offer(node, store.list_moved())

        return asyncio.run(_serve(_Agent(server, paths, read_current_offer, has_changed), report_ready))


def _connect_pod_resources(kubelet: Path) -> ReadDevices:
    from trackbed.node.rails.kubelet.pods import PodResources  # noqa: PLC0415 - gRPC takes 30 MB, only with a kubelet

    return PodResources(kubelet / "pod-resources/kubelet.sock").read_devices


async def _offer(kubelet: Path, read_current_offer: Callable[[], Offer], stop: asyncio.Event) -> None:
    from trackbed.node.rails.kubelet.plugin import Plugins  # noqa: PLC0415 - as above

    with closing(Watch(read_current_offer)) as watch:
        await Plugins(kubelet / "device-plugins", watch).run(stop)


@dataclass(frozen=True, slots=True)
class _Agent:
    server: Server
    paths: AgentPaths
    read_current_offer: Callable[[], Offer]
    has_changed: Callable[[], bool]


async def _serve(agent: _Agent, report_ready: Callable[[], None]) -> bool:
    stop = asyncio.Event()
    paths = agent.paths
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with asyncio.TaskGroup() as group:
        if paths.kubelet is not None:
            group.create_task(_offer(paths.kubelet, agent.read_current_offer, stop))
        if paths.cni is not None:
            group.create_task(keep_chained(paths.cni, paths.socket, stop))
        watching = group.create_task(_watch_plan(agent.has_changed, stop))
        await agent.server.serve(paths.socket, report_ready, stop)
    _log.info("stopped")
    return watching.result()


async def _watch_plan(has_changed: Callable[[], bool], stop: asyncio.Event) -> bool:
    """Stop the agent when the plan changes; return whether that was the reason for the stop."""
    while not stop.is_set():
        if has_changed():
            _log.info("the plan has changed; taking the new one")
            stop.set()
            return True
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), PLAN_SECONDS)
    return False
