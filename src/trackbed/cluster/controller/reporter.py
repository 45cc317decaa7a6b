"""Tells the objects of one Fabric how its roll-out stands, no more often than once in a while."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import ApiRefusedError, KubeError
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.api.times import now
from trackbed.cluster.controller import metrics, report
from trackbed.cluster.controller.decide import Decision, Placed
from trackbed.cluster.controller.events import tell as tell_event
from trackbed.cluster.controller.objects import FABRICS, RAILNODES, FabricObject, RailNode
from trackbed.cluster.controller.pace import AGAIN_SECONDS, MOVED_ON, QUIET_SECONDS, Tell, together
from trackbed.cluster.controller.revisions import Revisions
from trackbed.cluster.controller.stage import Rules, Stage
from trackbed.cluster.resources.fabric import FabricStatus
from trackbed.cluster.resources.railnode import API_VERSION

MANAGER = "trackbed-controller"
REPORT_SECONDS = 1.0


class FabricPass(NamedTuple):
    """What one look found, as far as it is told."""

    decision: Decision
    rules: Rules
    resources: Mapping[str, tuple[str, ...]]
    """Node -> the resources of its rails."""
    left: Mapping[str, tuple[str, ...]]
    """Node that is drained -> the pods that are left there, and why."""


class Reporter:
    """What was told of one Fabric last, so that only what stays so is told, and once."""

    def __init__(self, client: Client, railnodes: Reflector[RailNode], revisions: Revisions) -> None:
        self._client, self._railnodes, self._revisions = client, railnodes, revisions
        self._told: dict[str, tuple[Stage, str]] = {}
        self._reported = 0.0

    async def refused(self, fabric: FabricObject, why: str) -> None:
        """Tell why a Fabric cannot be carried out."""
        metrics.refused(fabric)
        await self._status(fabric, report.refused(fabric, why, now()))

    async def carried(self, fabric: FabricObject, seen: FabricPass, tell: Tell) -> float:
        """Tell how it stands; seconds until there is more to tell."""
        wait = self._reported + REPORT_SECONDS - time.monotonic()
        if wait > 0:
            return wait
        self._reported = time.monotonic()
        at, placed = now(), seen.decision.placed
        fresh = {one.standing.name: (one.stage, one.why) for one in placed}
        stays = [one for one in placed if self._told.get(one.standing.name) == fresh[one.standing.name]]
        changed = len(stays) < len(placed)
        self._told = fresh
        writes = [w for one in stays if (w := _told(one, seen, at))]
        told_all = all(await together([partial(self._rolled, one, tell) for one in writes]))
        await together(
            [partial(self._failed, one) for one in stays if one.stage is Stage.FAILED and report.is_news(one)]
        )
        status = report.fabric_status(fabric, seen.decision, seen.rules, seen.resources, at)
        if status.good_generation != fabric.status.good_generation:
            await self._revisions.keep(fabric)
        await self._status(fabric, status)
        if not told_all:
            return AGAIN_SECONDS
        return REPORT_SECONDS if changed or writes else QUIET_SECONDS

    async def _rolled(self, one: dict[str, Any], tell: Tell) -> bool:
        name = one["metadata"]["name"]
        try:
            self._railnodes.record_write(await self._client.apply(f"{RAILNODES}/{name}/status", one, MANAGER))
        except KubeError as error:
            if isinstance(error, ApiRefusedError) and error.status in MOVED_ON:
                return True
            tell(f"status of {name}: {error}")
            return False
        return True

    async def _failed(self, one: Placed) -> bool:
        rail = one.standing.rail
        assert rail is not None  # noqa: S101 - what failed is there
        metrics.FAILURES.labels(rail.spec.fabric).inc()
        await tell_event(self._client, rail, "Failed", one.why, "Warning")
        return True

    async def _status(self, fabric: FabricObject, status: FabricStatus) -> None:
        if status == fabric.status:
            return
        metadata = {"name": fabric.metadata.name}
        one = {"apiVersion": API_VERSION, "kind": "Fabric", "metadata": metadata, "status": msgspec.to_builtins(status)}
        await self._client.apply(f"{FABRICS}/{fabric.metadata.name}/status", one, MANAGER)


def _told(one: Placed, seen: FabricPass, at: str) -> dict[str, Any] | None:
    name = one.standing.name
    return report.told(one, seen.left.get(name, ()), seen.resources.get(name, ()), at)
