"""Simulated node agents: they update RailNodes as the agents of real nodes would, thousands in one process.

Each simulated host has the state of its last change and a number for its boot, as a real one has. A change may need a
reboot, or fail.
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
from trackbed.cluster.api.times import format_now
from trackbed.cluster.controller.objects import RAILNODES, RailNode
from trackbed.cluster.resources.conditions import Condition, put
from trackbed.cluster.resources.railnode import API_VERSION, FAILED, KIND, PREPARED, RailNodeStatus

MANAGER = "trackbed-agent"
CONCURRENT_WRITES = 16
RETRY_SECONDS = 1.0


@dataclass(slots=True)
class SimulatedHost:
    """The state of a simulated host."""

    applied: str = ""
    """The state that it was configured to (`Agents.to_state`)."""
    boot: int = 1
    rebooted_for: str = ""
    """The state that its last reboot was for."""
    changes: int = 0
    """Number of times it was configured."""


@dataclass(slots=True)
class Agents:
    """All simulated hosts, and functions that select those with a special behaviour."""

    needs_reboot: Callable[[str], bool] = lambda _: False
    """Whether a change of this node needs a reboot."""
    fails: Callable[[str], bool] = lambda _: False
    """Whether a change of this node fails."""
    hangs: Callable[[RailNode], bool] = lambda _: False
    """Whether a node's agent hangs; it is asked again at the next change of any RailNode."""
    to_state: Callable[[str], str] = lambda digest: digest
    """The state of a host for the digest of its plan: two versions of Trackbed may encode the same plan differently."""
    changes_firmware: Callable[[str], bool] = lambda _: False
    """Whether a change of this node includes its NICs' firmware."""
    prepared: bool = False
    """Whether hosts are as planned from the beginning."""
    hosts: dict[str, SimulatedHost] = field(default_factory=dict)
    _written: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The status that was last written for each node."""

    async def run(self, client: Client, report: Callable[[str], None]) -> None:
        """Update the status of RailNodes until cancelled; `report` gets errors."""
        changed = asyncio.Event()
        reflector = Reflector(client, RAILNODES, RailNode, changed.set)
        async with asyncio.TaskGroup() as group:
            group.create_task(reflector.run(report))
            while True:
                await changed.wait()
                changed.clear()
                if not await self._update(client, list(reflector.objects.values()), report):
                    await asyncio.sleep(RETRY_SECONDS)
                    changed.set()

    async def _update(self, client: Client, rails: list[RailNode], report: Callable[[str], None]) -> bool:
        """Write every status that has changed; return False if one could not be written."""
        gate = asyncio.Semaphore(CONCURRENT_WRITES)

        async def write(rail: RailNode, status: dict[str, Any]) -> bool:
            async with gate:
                try:
                    await self._write(client, rail.metadata.name, status)
                except KubeError as error:
                    if isinstance(error, ApiRefusedError) and error.status == HTTPStatus.NOT_FOUND:
                        return True  # it was deleted meanwhile
                    report(str(error))
                    return False
            return True

        changes = [(rail, status) for rail in rails if not self.hangs(rail) and (status := self._compute_change(rail))]
        return all(await asyncio.gather(*(write(rail, status) for rail, status in changes)))

    def _compute_change(self, rail: RailNode) -> dict[str, Any] | None:
        """Return the new status of a RailNode, or None if it is the one written last."""
        status = msgspec.to_builtins(self.process(rail))
        return None if self._written.get(rail.metadata.name) == status else status

    async def _write(self, client: Client, name: str, status: dict[str, Any]) -> None:
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "status": status}
        await client.apply(f"{RAILNODES}/{name}/status", body, MANAGER)
        self._written[name] = status

    def process(self, rail: RailNode) -> RailNodeStatus:
        """Change the host as its RailNode permits; return the new status."""
        name, spec = rail.metadata.name, rail.spec
        host = self.hosts.setdefault(name, SimulatedHost(self.to_state(spec.plan_hash) if self.prepared else ""))
        condition, needs_reboot = self._change_host(name, host, rail)
        previous = [item for item in rail.status.conditions if item.type == PREPARED]
        conditions = put(previous, condition, format_now())
        firmware = condition.status == "False" and self.changes_firmware(name)
        return RailNodeStatus(spec.plan_hash, f"boot-{host.boot}", needs_reboot, firmware, conditions)

    def _change_host(self, name: str, host: SimulatedHost, rail: RailNode) -> tuple[Condition, bool]:
        """Return the host's condition Prepared, and whether it needs a reboot."""
        state, boot = self.to_state(rail.spec.plan_hash), f"boot-{host.boot}"
        if host.applied == state:
            return Condition(PREPARED, "True", "AsPlanned"), False
        if not rail.spec.may_change:
            return Condition(PREPARED, "False", "Differs", "8 settings differ"), False
        if self.fails(name):
            return Condition(PREPARED, "False", FAILED, "rail 3: no such device"), False
        if self.needs_reboot(name) and host.rebooted_for != state:
            if rail.spec.may_reboot != boot:
                return Condition(PREPARED, "False", "NeedsReboot", "kernel arguments"), True
            host.boot, host.rebooted_for = host.boot + 1, state
            return self._change_host(name, host, rail)
        host.applied, host.changes = state, host.changes + 1
        return Condition(PREPARED, "True", "AsPlanned"), False
