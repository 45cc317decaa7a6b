"""The controller: reconciles every Fabric for as long as this process leads.

A follower keeps no state and reads only the Lease. A new leader lists everything first, so it never acts on stale
state. A leader that cannot renew its Lease gives up all its state and competes for the Lease again.
"""

import asyncio
import logging
import time
from collections.abc import Collection
from contextlib import suppress
from functools import partial

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.api.lease import LEASE_SECONDS, Election
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.controller import metrics
from trackbed.cluster.controller.act import delete_orphan
from trackbed.cluster.controller.fabric_reconciler import FabricReconciler
from trackbed.cluster.controller.maintenance import Maintenance
from trackbed.cluster.controller.objects import FABRICS, NODES, RAILNODES, FabricObject, NodeObject, RailNode
from trackbed.cluster.controller.pace import IDLE_SECONDS, RETRY_SECONDS, Log, run_all
from trackbed.cluster.controller.stacks import Stacks, drop_stack_condition
from trackbed.cluster.daemon.listening import ListenAddress
from trackbed.cluster.daemon.observed import serve_health
from trackbed.cluster.daemon.serving import run_until_first_ends, run_until_signal

LEASE = "trackbed-controller"
SETTLE_SECONDS = 0.2
"""Changes within this time of each other are handled in one pass."""

_log = logging.getLogger(__name__)


async def serve(
    client: Client, namespace: str, identity: str, metrics_address: ListenAddress | None, stacks: Collection[str] = ()
) -> None:
    """Compete for the Lease and lead, until SIGTERM or SIGINT; apply only these stacks. Raises ListenError."""
    election = Election(client, namespace, LEASE, identity)
    async with client, serve_health(metrics_address, partial(_explain_unready, election)):
        await run_until_signal(_lead_repeatedly(client, namespace, election, stacks))


async def _lead_repeatedly(client: Client, namespace: str, election: Election, stacks: Collection[str]) -> None:
    while True:
        await _lead(client, namespace, election, stacks, _log.info)


def _explain_unready(election: Election) -> str:
    return "" if election.in_touch else f"the API server has told nothing of Lease {LEASE} for {LEASE_SECONDS} s"


async def _lead(client: Client, namespace: str, election: Election, stacks: Collection[str], log: Log) -> None:
    """Wait for the Lease, and lead until it is lost."""
    await election.win(log)
    log(f"{election.identity} leads")
    metrics.LEADER.set(1)
    try:
        await run_until_first_ends(Controller(client, namespace, log, stacks).run(), election.hold(log))
    finally:
        metrics.clear_fabrics()
        with suppress(KubeError):
            await election.release()
    log(f"{election.identity} leads no more")


class Controller:
    """Reconciles all Fabrics while its process leads."""

    def __init__(self, client: Client, namespace: str, log: Log, stacks: Collection[str] = ()) -> None:
        self._client, self._namespace, self._log = client, namespace, log
        self._changed = asyncio.Event()
        self._stacks = Stacks(client, stacks, self._changed.set)
        self._fabrics = Reflector(client, FABRICS, FabricObject, self._changed.set)
        self._railnodes = Reflector(client, RAILNODES, RailNode, self._changed.set)
        self._nodes = Reflector(client, NODES, NodeObject, self._changed.set)
        self._maintenance = Maintenance(client, self._changed.set)
        self._reconcilers: dict[str, FabricReconciler] = {}

    async def run(self) -> None:
        """Reconcile after each change, until cancelled."""
        async with self._stacks, asyncio.TaskGroup() as group:
            reflectors = (self._fabrics, self._railnodes, self._nodes, *self._maintenance.reflectors)
            for reflector in reflectors:
                group.create_task(reflector.run(self._log))
            for reflector in reflectors:
                await reflector.synced.wait()
            group.create_task(self._reconcile_repeatedly())

    async def _reconcile_repeatedly(self) -> None:
        while True:
            self._changed.clear()
            wait = await self._reconcile_all()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):  # wait_for of Python 3.11 may swallow a cancellation
                    await self._changed.wait()
            await asyncio.sleep(SETTLE_SECONDS)

    async def _reconcile_all(self) -> float:
        """Reconcile every Fabric once; return the seconds until the next pass if nothing changes before."""
        waits = [IDLE_SECONDS]
        for name, fabric in sorted(self._fabrics.objects.items()):
            reconciler = self._reconcilers.get(name) or self._reconcilers.setdefault(name, self._build_reconciler(name))
            start = time.monotonic()
            try:
                with metrics.LOOK.time():
                    maintenance = self._maintenance.list_nodes()
                    waits.append(await reconciler.reconcile(drop_stack_condition(fabric), maintenance, self._log))
                waits.append(await self._stacks.reconcile(fabric, reconciler.build_stack_order(fabric)))
            except KubeError as error:
                self._log(f"fabric {name}: {error}")
                waits.append(RETRY_SECONDS)
            if (seconds := time.monotonic() - start) > RETRY_SECONDS:
                self._log(f"fabric {name}: one look took {seconds:.1f} s")
        for name in self._reconcilers.keys() - self._fabrics.objects.keys():
            del self._reconcilers[name]
            metrics.forget_fabric(name)
            self._stacks.forget(name)
        waits.append(await self._delete_orphans())
        return min(waits)

    async def _delete_orphans(self) -> float:
        """Release the nodes of deleted Fabrics; the locks are kept, so a recreated Fabric assigns the same slots."""
        in_maintenance, nodes = self._maintenance.list_nodes(), self._nodes.objects
        orphans = [
            railnode
            for name, railnode in self._railnodes.objects.items()
            if name not in in_maintenance and railnode.spec.fabric not in self._fabrics.objects
        ]
        try:
            await run_all(
                [
                    partial(delete_orphan, self._client, self._nodes, railnode, nodes.get(railnode.metadata.name))
                    for railnode in orphans
                ]
            )
        except KubeError as error:
            self._log(f"nodes of no Fabric: {error}")
            return RETRY_SECONDS
        return IDLE_SECONDS

    def _build_reconciler(self, name: str) -> FabricReconciler:
        return FabricReconciler(self._client, self._railnodes, self._nodes, self._namespace, name)
