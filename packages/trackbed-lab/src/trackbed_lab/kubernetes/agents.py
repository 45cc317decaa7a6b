"""Agents of nodes that do not exist: they answer RailNodes as a real node's agent would, thousands in one process.

Each simulated host remembers which plan it was set up by and which boot it is in, as a real one does; a change may need
a reboot, or fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import ApiRefusedError, KubeError
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.api.times import now
from trackbed.cluster.controller.objects import RAILNODES, RailNode
from trackbed.cluster.resources.conditions import Condition, put
from trackbed.cluster.resources.railnode import API_VERSION, FAILED, KIND, PREPARED, RailNodeStatus

MANAGER = "trackbed-agent"
AT_ONCE = 16
AGAIN_SECONDS = 1.0


@dataclass(slots=True)
class Host:
    """A host that does not exist."""

    applied: str = ""
    """What it is set up as (`Agents.means`)."""
    boot: int = 1
    rebooted_for: str = ""
    """What it was to become when only a reboot was missing."""
    changes: int = 0
    """Times it was set up."""


@dataclass(slots=True)
class Agents:
    """All simulated hosts, and what is peculiar about them."""

    reboots: Callable[[str], bool] = lambda _: False
    """Whether a change of this node needs a reboot."""
    fails: Callable[[str], bool] = lambda _: False
    """Whether a change of this node fails."""
    holds: Callable[[RailNode], bool] = lambda _: False
    """Whether a node's agent hangs and says nothing; it goes on with the next change of any RailNode."""
    means: Callable[[str], str] = lambda digest: digest
    """What a plan makes of a host, by its digest: two versions of Trackbed may write the same plan in other words."""
    firmware: Callable[[str], bool] = lambda _: False
    """Whether what differs on this node is its NICs' firmware, too."""
    prepared: bool = False
    """Whether hosts are as planned from the beginning."""
    hosts: dict[str, Host] = field(default_factory=dict)
    _told: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def run(self, client: Client, tell: Callable[[str], None]) -> None:
        """Answer RailNodes until cancelled."""
        changed = asyncio.Event()
        seen = Reflector(client, RAILNODES, RailNode, changed.set)
        async with asyncio.TaskGroup() as group:
            group.create_task(seen.run(tell))
            while True:
                await changed.wait()
                changed.clear()
                if not await self._answer(client, list(seen.objects.values()), tell):
                    await asyncio.sleep(AGAIN_SECONDS)
                    changed.set()

    async def _answer(self, client: Client, found: list[RailNode], tell: Callable[[str], None]) -> bool:
        """Whether all could be said that there is to say."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(rail: RailNode, status: dict[str, Any]) -> bool:
            async with gate:
                try:
                    await self._say(client, rail.metadata.name, status)
                except KubeError as error:
                    if isinstance(error, ApiRefusedError) and error.status == HTTPStatus.NOT_FOUND:
                        return True  # it was deleted meanwhile
                    tell(str(error))
                    return False
            return True

        due = [(rail, status) for rail in found if not self.holds(rail) and (status := self._fresh(rail))]
        return all(await asyncio.gather(*(one(rail, status) for rail, status in due)))

    def _fresh(self, rail: RailNode) -> dict[str, Any] | None:
        """What a node's agent says now, where it is something else than before."""
        status = msgspec.to_builtins(self.status(rail))
        return None if self._told.get(rail.metadata.name) == status else status

    async def _say(self, client: Client, name: str, status: dict[str, Any]) -> None:
        one = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "status": status}
        await client.apply(f"{RAILNODES}/{name}/status", one, MANAGER)
        self._told[name] = status

    def status(self, rail: RailNode) -> RailNodeStatus:
        """What a host's agent does about its RailNode, and then says of it."""
        name, spec = rail.metadata.name, rail.spec
        host = self.hosts.setdefault(name, Host(self.means(spec.plan_hash) if self.prepared else ""))
        condition, needs = self._do(name, host, rail)
        said = put([one for one in rail.status.conditions if one.type == PREPARED], condition, now())
        firmware = condition.status == "False" and self.firmware(name)
        return RailNodeStatus(spec.plan_hash, f"boot-{host.boot}", needs, firmware, said)

    def _do(self, name: str, host: Host, rail: RailNode) -> tuple[Condition, bool]:
        wanted, boot = self.means(rail.spec.plan_hash), f"boot-{host.boot}"
        if host.applied == wanted:
            return Condition(PREPARED, "True", "AsPlanned"), False
        if not rail.spec.may_change:
            return Condition(PREPARED, "False", "Differs", "8 settings differ"), False
        if self.fails(name):
            return Condition(PREPARED, "False", FAILED, "rail 3: no such device"), False
        if self.reboots(name) and host.rebooted_for != wanted:
            if rail.spec.may_reboot != boot:
                return Condition(PREPARED, "False", "NeedsReboot", "kernel arguments"), True
            host.boot, host.rebooted_for = host.boot + 1, wanted
            return self._do(name, host, rail)
        host.applied, host.changes = wanted, host.changes + 1
        return Condition(PREPARED, "True", "AsPlanned"), False
