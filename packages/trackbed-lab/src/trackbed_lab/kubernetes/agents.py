"""Simulated node agents: they update RailNodes as the agents of real nodes would, thousands in one process.

Like a real host, each simulated one has the state of its last change and a boot number. A change may need a reboot, or
fail. A value that was flipped by hand is judged as on a real node, and repaired in place where that permits it.
"""

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
from trackbed.cluster.resources.conditions import Condition, put_condition
from trackbed.cluster.resources.railnode import API_VERSION, FAILED, KIND, PREPARED, RailNodeStatus
from trackbed.fleet.outcome import Outcome
from trackbed.node.sync.judge import Drift, judge_comparison

MANAGER = "trackbed-agent"
CONCURRENT_WRITES = 16
RETRY_SECONDS = 1.0
_SETTING = ("qos", "PFC of rail0")
_FLIPPED = {"step": _SETTING[0], "what": _SETTING[1], "have": "none", "want": "3", "repairable": True}
"""The difference of a host whose value was flipped, as a host reports it."""


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
    flipped: bool = False
    """Whether one value differs that can be repaired in place."""
    repairs: int = 0
    """Number of times that value was repaired."""
    may_repair: bool = False
    """The permission to repair that its agent has read."""


@dataclass(slots=True)
class Agents:
    """All simulated hosts, and functions that select those with a special behaviour."""

    needs_reboot: Callable[[str], bool] = lambda _: False
    """Whether a change of this node needs a reboot."""
    fails: Callable[[str], bool] = lambda _: False
    """Whether a change of this node fails."""
    hangs: Callable[[RailNode], bool] = lambda _: False
    """Whether a node's agent hangs; evaluated again at the next change of any RailNode."""
    to_state: Callable[[str], str] = lambda digest: digest
    """The state of a host for the digest of its plan: two versions of Trackbed may encode the same plan differently."""
    changes_firmware: Callable[[str], bool] = lambda _: False
    """Whether a change of this node includes its NICs' firmware."""
    is_contested: Callable[[str], bool] = lambda _: False
    """Whether the flipped value of this node is contested, until an operator ends the contest."""
    prepared: bool = False
    """Whether hosts are as planned from the beginning."""
    hosts: dict[str, SimulatedHost] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when statuses must be computed again."""
    _written: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The last written status of each node."""

    async def run(self, client: Client, report: Callable[[str], None]) -> None:
        """Update the status of RailNodes until cancelled; call `report` with each error."""
        changed = self._changed
        reflector = Reflector(client, RAILNODES, RailNode, changed.set)
        async with asyncio.TaskGroup() as group:
            group.create_task(reflector.run(report))
            while True:
                await changed.wait()
                changed.clear()
                if not await self._update_statuses(client, list(reflector.objects.values()), report):
                    await asyncio.sleep(RETRY_SECONDS)
                    changed.set()

    def flip_values(self) -> None:
        """Flip one value on every host that is configured."""
        for host in self.hosts.values():
            host.flipped = bool(host.applied)
        self._changed.set()

    async def _update_statuses(self, client: Client, railnodes: list[RailNode], report: Callable[[str], None]) -> bool:
        """Write every status that has changed; return False if one could not be written."""
        gate = asyncio.Semaphore(CONCURRENT_WRITES)

        async def write_status(rail: RailNode, status: dict[str, Any]) -> bool:
            async with gate:
                try:
                    await self._write_status(client, rail.metadata.name, status)
                except KubeError as error:
                    if isinstance(error, ApiRefusedError) and error.status == HTTPStatus.NOT_FOUND:
                        return True  # the RailNode was deleted in the meantime
                    report(str(error))
                    return False
            return True

        changes = [
            (rail, status) for rail in railnodes if not self.hangs(rail) and (status := self._compute_new_status(rail))
        ]
        return all(await asyncio.gather(*(write_status(rail, status) for rail, status in changes)))

    def _compute_new_status(self, railnode: RailNode) -> dict[str, Any] | None:
        """Return the new status of a RailNode, or None if it is the one written last."""
        status = msgspec.to_builtins(self.process_railnode(railnode))
        return None if self._written.get(railnode.metadata.name) == status else status

    async def _write_status(self, client: Client, name: str, status: dict[str, Any]) -> None:
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "status": status}
        await client.apply(f"{RAILNODES}/{name}/status", body, MANAGER)
        self._written[name] = status

    def process_railnode(self, railnode: RailNode) -> RailNodeStatus:
        """Change the host as its RailNode permits; return the new status."""
        name, spec = railnode.metadata.name, railnode.spec
        host = self.hosts.setdefault(name, SimulatedHost(self.to_state(spec.plan_hash) if self.prepared else ""))
        host.may_repair = spec.may_repair
        condition, needs_reboot = self._change_host(name, host, railnode)
        previous = [item for item in railnode.status.conditions if item.type == PREPARED]
        conditions = put_condition(previous, condition, format_now())
        firmware = condition.status == "False" and self.changes_firmware(name)
        return RailNodeStatus(spec.plan_hash, f"boot-{host.boot}", needs_reboot, firmware, conditions)

    def _change_host(self, name: str, host: SimulatedHost, railnode: RailNode) -> tuple[Condition, bool]:
        """Return the host's condition Prepared, and whether it needs a reboot."""
        state, boot = self.to_state(railnode.spec.plan_hash), f"boot-{host.boot}"
        if host.applied == state:
            return self._judge_values(name, host, railnode), False
        if not railnode.spec.may_change:
            return Condition(PREPARED, "False", "Differs", "8 settings differ"), False
        if self.fails(name):
            return Condition(PREPARED, "False", FAILED, "rail 3: no such device"), False
        if self.needs_reboot(name) and host.rebooted_for != state:
            if railnode.spec.may_reboot != boot:
                return Condition(PREPARED, "False", "NeedsReboot", "kernel arguments"), True
            host.boot, host.rebooted_for = host.boot + 1, state
            return self._change_host(name, host, railnode)
        host.applied, host.changes, host.flipped = state, host.changes + 1, False
        return Condition(PREPARED, "True", "AsPlanned"), False

    def _judge_values(self, name: str, host: SimulatedHost, railnode: RailNode) -> Condition:
        """Return the condition of a host that had reached its plan; repair the flipped value if that is permitted."""
        contested = frozenset({_SETTING} if self.is_contested(name) and not railnode.spec.repairs_after else ())
        outcome = Outcome(
            name, "differs" if host.flipped else "same", "", {"changes": [_FLIPPED] if host.flipped else []}
        )
        judgement = judge_comparison(outcome, railnode.spec, 0, Drift(reached=True, contested=contested))
        if judgement.action not in {"repair", "apply"}:
            return judgement.condition
        host.flipped, host.repairs = False, host.repairs + 1
        return Condition(PREPARED, "True", "AsPlanned")
