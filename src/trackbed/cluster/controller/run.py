"""The controller: reconciles every Fabric while this process leads.

A follower keeps no state and reads only the Lease. A new leader lists all objects first, so it never acts on stale
state. A leader that cannot renew its Lease discards its state and competes for the Lease again.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.concurrency import run_each
from trackbed.cluster.api.errors import ApiRefusedError, KubeError
from trackbed.cluster.api.lease import LEASE_SECONDS, Election
from trackbed.cluster.api.metadata import PartialObject
from trackbed.cluster.api.paths import join_path
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.controller import metrics
from trackbed.cluster.controller.act import remove_orphan
from trackbed.cluster.controller.comparer import Comparer, ComparisonInput, drop_comparison
from trackbed.cluster.controller.fabric_reconciler import FabricReconciler
from trackbed.cluster.controller.maintenance import Maintenance
from trackbed.cluster.controller.objects import FABRICS, NODES, RAILNODES, FabricObject, NodeObject, RailNode
from trackbed.cluster.controller.pace import IDLE_SECONDS, RETRY_SECONDS, Log
from trackbed.cluster.controller.refusals import Kind, RefusalReporter
from trackbed.cluster.controller.stacks import Stacks, drop_stack_condition
from trackbed.cluster.daemon.health import serve_health
from trackbed.cluster.daemon.http_server import ListenAddress
from trackbed.cluster.daemon.tasks import run_until_first_ends, run_until_signal

LEASE = "trackbed-controller"
"""Name of the Lease by which the leader is elected."""
SETTLE_SECONDS = 0.2
"""Pause after a pass, so that the next pass handles several changes at once."""

_log = logging.getLogger(__name__)


async def serve(
    client: Client, namespace: str, identity: str, metrics_address: ListenAddress | None, stacks: Collection[str] = ()
) -> None:
    """Compete for the Lease, and reconcile while leading, until SIGTERM or SIGINT. Raises ListenError.

    `identity` names this candidate; `stacks` are the stacks that it may apply.
    """
    election = Election(client, namespace, LEASE, identity)
    async with client, serve_health(metrics_address, partial(_explain_unready, election)):
        await run_until_signal(_lead_repeatedly(client, namespace, election, stacks))


async def _lead_repeatedly(client: Client, namespace: str, election: Election, stacks: Collection[str]) -> None:
    while True:
        await _lead_once(client, namespace, election, stacks, _log.info)


def _explain_unready(election: Election) -> str:
    return "" if election.has_contact else f"Lease {LEASE} could not be read for {LEASE_SECONDS} s"


async def _lead_once(client: Client, namespace: str, election: Election, stacks: Collection[str], log: Log) -> None:
    """Wait for the Lease, reconcile until it is lost, then release it and discard all state."""
    await election.wait_until_leading(log)
    log(f"{election.identity} leads")
    metrics.LEADER.set(1)
    try:
        await run_until_first_ends(Controller(client, namespace, log, stacks).run(), election.renew_until_lost(log))
    finally:
        metrics.clear_leader_metrics()
        with suppress(KubeError):
            await election.release()
    log(f"{election.identity} no longer leads")


class Controller:
    """Reconciles all Fabrics; keeps its state only while this process leads."""

    def __init__(self, client: Client, namespace: str, log: Log, stacks: Collection[str] = ()) -> None:
        self._client, self._namespace, self._log = client, namespace, log
        self._changed = asyncio.Event()
        self._stacks = Stacks(client, stacks, self._changed.set)
        self._fabrics = Reflector(client, FABRICS, FabricObject, self._changed.set)
        self._railnodes = Reflector(client, RAILNODES, RailNode, self._changed.set)
        self._nodes = Reflector(client, NODES, NodeObject, self._changed.set)
        self._maintenance = Maintenance(client, self._changed.set)
        self._reconcilers: dict[str, FabricReconciler] = {}
        self._refusals = RefusalReporter(client, log)

    async def run(self) -> None:
        """Reconcile after each change of an object, until cancelled."""
        async with self._stacks, asyncio.TaskGroup() as group:
            reflectors = (self._fabrics, self._railnodes, self._nodes, *self._maintenance.reflectors)
            for reflector in reflectors:
                group.create_task(reflector.run(self._log))
            for reflector in reflectors:
                await reflector.synced.wait()
            group.create_task(self._reconcile_repeatedly())
            group.create_task(Comparer(self._client, self._log).run(self._iter_comparison_inputs))

    async def _reconcile_repeatedly(self) -> None:
        while True:
            self._changed.clear()
            wait = await self._reconcile_all()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):  # wait_for of Python 3.11 may swallow a cancellation
                    await self._changed.wait()
            await asyncio.sleep(SETTLE_SECONDS)

    async def _reconcile_all(self) -> float:
        """Reconcile every Fabric once; return the seconds until the next pass, unless an object changes before."""
        waits = [IDLE_SECONDS]
        for name, fabric in sorted(self._fabrics.objects.items()):
            reconciler = self._reconcilers.get(name) or self._reconcilers.setdefault(name, self._build_reconciler(name))
            start = time.monotonic()
            try:
                with metrics.PASS_DURATION.time():
                    maintenance = self._maintenance.describe_nodes()
                    waits.append(await reconciler.reconcile(_drop_foreign_fields(fabric), maintenance, self._log))
                waits.append(await self._stacks.reconcile(fabric, reconciler.build_stack_request(fabric)))
            except KubeError as error:
                self._log(f"fabric {name}: {error}")
                waits.append(RETRY_SECONDS)
            except Exception as error:  # noqa: BLE001 - a Fabric that nobody foresaw must not stop the others
                await self._report_defect(fabric, error)
                waits.append(IDLE_SECONDS)
            if (seconds := time.monotonic() - start) > RETRY_SECONDS:
                self._log(f"fabric {name}: one pass took {seconds:.1f} s")
        for name in self._reconcilers.keys() - self._fabrics.objects.keys():
            del self._reconcilers[name]
            metrics.remove_fabric_gauges(name)
            self._stacks.drop_fabric(name)
        waits.append(await self._report_unreadable())
        waits.append(await self._delete_orphans())
        return min(waits)

    async def _report_defect(self, fabric: FabricObject, error: Exception) -> None:
        """Log an unexpected error of a pass over a Fabric, count it, and write it into the Fabric's status."""
        name = fabric.metadata.name
        _log.error("fabric %s: the pass ended with an unexpected error", name, exc_info=error)
        metrics.DEFECTS.labels(name).inc()
        reason = f"a defect of Trackbed stops it, please report it with the controller's log: {error!r}"
        try:
            await self._reconcilers[name].report_refusal(_drop_foreign_fields(fabric), reason)
        except KubeError as api_error:
            self._log(f"fabric {name}: {api_error}")

    async def _report_unreadable(self) -> float:
        """Report the objects that cannot be decoded; return the seconds until the next pass."""
        reflectors: tuple[tuple[Kind, Reflector[Any]], ...] = (
            ("Fabric", self._fabrics),
            ("RailNode", self._railnodes),
            ("Node", self._nodes),
        )
        waits = [IDLE_SECONDS]
        for kind, reflector in reflectors:
            unreadable = list(reflector.unreadable.values())
            waits += [await self._refusals.report(kind, item.metadata, item.reason) for item in unreadable]
        return min(waits)

    async def _delete_orphans(self) -> float:
        """Release the nodes of deleted Fabrics and delete their RailNodes; return the seconds until the next pass.

        Locks are kept, so a Fabric that is created again assigns the same slots. Each Fabric is read from the server
        before, since a watch may lag behind, and the RailNodes of an existing Fabric must not be deleted.
        """
        in_maintenance, nodes = self._maintenance.describe_nodes(), self._nodes.objects
        fabrics = self._fabrics.objects.keys() | self._fabrics.unreadable.keys()
        orphans = [
            railnode
            for name, railnode in self._railnodes.objects.items()
            if name not in in_maintenance and railnode.spec.fabric not in fabrics
        ]
        try:
            missing = {railnode.spec.fabric for railnode in orphans}
            deleted = {fabric for fabric in missing if not await _exists(self._client, fabric)}
            await run_each(
                [
                    partial(remove_orphan, self._client, self._nodes, railnode, nodes.get(railnode.metadata.name))
                    for railnode in orphans
                    if railnode.spec.fabric in deleted
                ]
            )
        except KubeError as error:
            self._log(f"nodes of no Fabric: {error}")
            return RETRY_SECONDS
        return IDLE_SECONDS if deleted == missing else RETRY_SECONDS

    def _iter_comparison_inputs(self) -> Iterator[ComparisonInput]:
        for name, fabric in sorted(self._fabrics.objects.items()):
            reconciler = self._reconcilers.get(name)
            if reconciler and (comparison_input := reconciler.build_comparison_input(fabric)):
                yield comparison_input

    def _build_reconciler(self, name: str) -> FabricReconciler:
        return FabricReconciler(self._client, self._railnodes, self._nodes, self._namespace, name)


async def _exists(client: Client, fabric: str) -> bool:
    """Return whether the server has a Fabric. Raises KubeError."""
    try:
        path = join_path(FABRICS, fabric)
    except ApiRefusedError:  # no object can have such a name
        return False
    return await client.find(path, PartialObject) is not None


def _drop_foreign_fields(fabric: FabricObject) -> FabricObject:
    """Return the Fabric without the parts of its status that have another writer than the reconciler."""
    return drop_comparison(drop_stack_condition(fabric))
