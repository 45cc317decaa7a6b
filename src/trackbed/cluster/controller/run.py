"""The controller: for as long as this process leads, every Fabric is carried out.

A follower holds nothing and asks for nothing but the Lease. A new leader lists everything first, so it never acts on
what another one has changed since; one that cannot renew its Lease ends, and the next process begins from nothing.
"""

from __future__ import annotations

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
from trackbed.cluster.controller.act import let_go
from trackbed.cluster.controller.fabric_reconciler import FabricReconciler
from trackbed.cluster.controller.maintenance import Maintenance
from trackbed.cluster.controller.objects import FABRICS, NODES, RAILNODES, FabricObject, NodeObject, RailNode
from trackbed.cluster.controller.pace import Tell, together
from trackbed.cluster.controller.stacks import Stacks, without
from trackbed.cluster.daemon.listening import ListenAddress
from trackbed.cluster.daemon.observed import observed
from trackbed.cluster.daemon.serving import until_one_ends, until_told

LEASE = "trackbed-controller"
SETTLE_SECONDS = 0.2
"""Changes that come within so long of each other are looked at together."""
_AGAIN_SECONDS = 5.0

_log = logging.getLogger(__name__)


async def serve(
    client: Client, namespace: str, who: str, watched_at: ListenAddress | None, stacks: Collection[str] = ()
) -> None:
    """Lead whenever it is this one's turn, until SIGTERM or SIGINT; `stacks` may be applied. Raises ListenError."""
    election = Election(client, namespace, LEASE, who)
    async with client, observed(watched_at, partial(_trouble, election)):
        await until_told(_for_ever(client, namespace, election, stacks))


async def _for_ever(client: Client, namespace: str, election: Election, stacks: Collection[str]) -> None:
    while True:
        await _control(client, namespace, election, stacks, _log.info)


def _trouble(election: Election) -> str:
    return "" if election.in_touch else f"the API server has told nothing of Lease {LEASE} for {LEASE_SECONDS} s"


async def _control(client: Client, namespace: str, election: Election, stacks: Collection[str], tell: Tell) -> None:
    """Lead when it is this one's turn, until that is over."""
    await election.win(tell)
    tell(f"{election.who} leads")
    metrics.LEADER.set(1)
    try:
        await until_one_ends(Controller(client, namespace, tell, stacks).run(), election.hold(tell))
    finally:
        metrics.follow()
        with suppress(KubeError):
            await election.release()
    tell(f"{election.who} leads no more")


class Controller:
    """What a leader does."""

    def __init__(self, client: Client, namespace: str, tell: Tell, stacks: Collection[str] = ()) -> None:
        self._client, self._namespace, self._tell = client, namespace, tell
        self._changed = asyncio.Event()
        self._stacks = Stacks(client, stacks, self._changed.set)
        self._fabrics = Reflector(client, FABRICS, FabricObject, self._changed.set)
        self._railnodes = Reflector(client, RAILNODES, RailNode, self._changed.set)
        self._nodes = Reflector(client, NODES, NodeObject, self._changed.set)
        self._maintenance = Maintenance(client, self._changed.set)
        self._reconcilers: dict[str, FabricReconciler] = {}

    async def run(self) -> None:
        """Keep looking, until cancelled."""
        async with self._stacks, asyncio.TaskGroup() as group:
            kinds = (self._fabrics, self._railnodes, self._nodes, *self._maintenance.kinds)
            for one in kinds:
                group.create_task(one.run(self._tell))
            for one in kinds:
                await one.synced.wait()
            group.create_task(self._loop())

    async def _loop(self) -> None:
        while True:
            self._changed.clear()
            wait = await self._look()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):  # wait_for of Python 3.11 may swallow a cancellation
                    await self._changed.wait()
            await asyncio.sleep(SETTLE_SECONDS)

    async def _look(self) -> float:
        """Look at every Fabric once; seconds until the next look that nothing need cause."""
        waits = [60.0]
        for name, fabric in sorted(self._fabrics.objects.items()):
            reconciler = self._reconcilers.get(name) or self._reconcilers.setdefault(name, self._build_reconciler(name))
            begun = time.monotonic()
            try:
                with metrics.LOOK.time():
                    waits.append(await reconciler.look(without(fabric), self._maintenance.nodes(), self._tell))
                waits.append(await self._stacks.look(fabric, reconciler.stack(fabric)))
            except KubeError as error:
                self._tell(f"fabric {name}: {error}")
                waits.append(_AGAIN_SECONDS)
            if (took := time.monotonic() - begun) > _AGAIN_SECONDS:
                self._tell(f"fabric {name}: one look took {took:.1f} s")
        for gone in self._reconcilers.keys() - self._fabrics.objects.keys():
            del self._reconcilers[gone]
            metrics.forget(gone)
            self._stacks.forget(gone)
        waits.append(await self._orphans())
        return min(waits)

    async def _orphans(self) -> float:
        """Let go of nodes whose Fabric was deleted; the lock stays, so it would get them back as they were."""
        kept, nodes = self._maintenance.nodes(), self._nodes.objects
        rails = (one for one in self._railnodes.objects.values() if one.metadata.name not in kept)
        left = [one for one in rails if one.spec.fabric not in self._fabrics.objects]
        try:
            await together(
                [partial(let_go, self._client, self._nodes, one, nodes.get(one.metadata.name)) for one in left]
            )
        except KubeError as error:
            self._tell(f"nodes of no Fabric: {error}")
            return _AGAIN_SECONDS
        return 60.0

    def _build_reconciler(self, name: str) -> FabricReconciler:
        return FabricReconciler(self._client, self._railnodes, self._nodes, self._namespace, name)
