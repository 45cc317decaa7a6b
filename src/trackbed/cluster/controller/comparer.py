"""Comparisons of the nodes of all Fabrics while this process leads, and their reports.

Nodes are compared every COMPARE_SECONDS if a report or the plan has changed, in a thread: the controller serves its
Lease meanwhile. 12,500 nodes of eight rails take two seconds of CPU, and 140 MB while it runs.

Condition Consistent and the findings of a Fabric, and condition Compared of a RailNode, have their own field manager,
so other writers of these statuses leave them alone. Nothing waits for a comparison.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.concurrency import run_all
from trackbed.cluster.api.errors import ApiRefusedError, KubeError
from trackbed.cluster.api.events import Event, record_event
from trackbed.cluster.api.paths import join_path
from trackbed.cluster.api.times import format_now
from trackbed.cluster.controller import metrics
from trackbed.cluster.controller.comparison import (
    Fault,
    NodeComparison,
    build_condition,
    compare_nodes,
    describe_fault,
    is_gone,
    list_findings,
    map_faults,
    restore_faults,
)
from trackbed.cluster.controller.events import record_railnode_event
from trackbed.cluster.controller.objects import FABRICS, RAILNODES, FabricObject, RailNode
from trackbed.cluster.controller.pace import STALE_STATUSES, Log
from trackbed.cluster.controller.slices import Slices
from trackbed.cluster.resources.conditions import Condition, find_condition, put_condition
from trackbed.cluster.resources.fabric import CONSISTENT
from trackbed.cluster.resources.railnode import API_VERSION, COMPARED, KIND

FIELD_MANAGER = "trackbed-comparison"
COMPARE_SECONDS = 60.0
"""Shortest interval between two comparisons of a Fabric's nodes; an agent reports every ten minutes."""
_MAX_EVENTS = 10
"""Most events of one comparison, since a report that lies may bring thousands of faults."""

_log = logging.getLogger(__name__)


class ComparisonInput(NamedTuple):
    """A Fabric, its plan, and the RailNodes of its nodes in the cluster; None for a node without a RailNode."""

    fabric: FabricObject
    slices: Slices
    railnodes: Mapping[str, RailNode | None]


@dataclass
class _FabricState:
    """What the last comparison of a Fabric read and found."""

    slices: Slices | None = None
    reports: Mapping[str, bytes | None] = field(default_factory=dict)
    faults: set[Fault] | None = None
    """Known faults; None before the first comparison."""


class Comparer:
    """Compares the nodes of each Fabric."""

    def __init__(self, client: Client, log: Log) -> None:
        self._client, self._log = client, log
        self._states: dict[str, _FabricState] = {}

    async def run(self, list_inputs: Callable[[], Iterable[ComparisonInput]]) -> None:
        """Compare the nodes of all Fabrics until cancelled; `list_inputs` is called before each round."""
        while True:
            await asyncio.sleep(COMPARE_SECONDS)
            inputs = {item.fabric.metadata.name: item for item in list_inputs()}
            self._states = {name: self._states.get(name, _FabricState()) for name in inputs}
            for name, item in inputs.items():
                try:
                    await self.compare(item)
                except KubeError as error:
                    self._log(f"comparison of the nodes of fabric {name}: {error}")
                except Exception as error:  # noqa: BLE001 - a report that nobody foresaw must not end the controller
                    _log.error(
                        "fabric %s: the comparison of its nodes ended with an unexpected error", name, exc_info=error
                    )
                    metrics.DEFECTS.labels(name).inc()

    async def compare(self, item: ComparisonInput) -> None:
        """Compare the nodes of a Fabric if a report or the plan has changed, and report. Raises KubeError."""
        state = self._states.setdefault(item.fabric.metadata.name, _FabricState())
        reports = {name: railnode.status.report if railnode else None for name, railnode in item.railnodes.items()}
        if state.slices is item.slices and state.reports == reports:
            return
        comparison = await asyncio.to_thread(compare_nodes, reports, item.slices)
        await self._update_fabric(item.fabric, comparison)
        await self._record_changes(item.fabric, state, comparison)
        if await self._update_railnodes(item.railnodes, comparison):
            state.slices, state.reports = item.slices, reports

    async def _update_fabric(self, fabric: FabricObject, comparison: NodeComparison) -> None:
        """Write condition Consistent and the findings of a Fabric if they differ."""
        old = find_condition(fabric.status.conditions, CONSISTENT)
        judged = msgspec.structs.replace(build_condition(comparison), observed_generation=fabric.metadata.generation)
        (condition,) = put_condition([old] if old.last_transition_time else [], judged, format_now())
        findings = list_findings(comparison)
        if (condition, findings) == (old, fabric.status.findings):
            return
        status = msgspec.to_builtins({"conditions": [condition], "findings": findings})
        await self._apply_status("Fabric", join_path(FABRICS, fabric.metadata.name, "status"), fabric, status)

    async def _update_railnodes(self, railnodes: Mapping[str, RailNode | None], comparison: NodeComparison) -> bool:
        """Write condition Compared where a report cannot be decoded, and remove it where it can be again.

        Return False if a write failed and must be retried.
        """
        messages = {name: comparison.unreadable.get(name, "") for name in railnodes}
        outdated = [
            (railnode, message)
            for name, message in messages.items()
            if (railnode := railnodes[name]) and find_condition(railnode.status.conditions, COMPARED).message != message
        ]
        return all(await run_all([partial(self._update_railnode, *item) for item in outdated]))

    async def _update_railnode(self, railnode: RailNode, message: str) -> bool:
        name = railnode.metadata.name
        conditions = [Condition(COMPARED, "False", "NotUnderstood", message, format_now())] if message else []
        status = {"conditions": msgspec.to_builtins(conditions)}
        try:
            await self._apply_status(KIND, join_path(RAILNODES, name, "status"), railnode, status)
        except KubeError as error:
            if isinstance(error, ApiRefusedError) and error.status in STALE_STATUSES:
                return True
            self._log(f"status of {name}: {error}")
            return False
        if message:
            note = f"its report is passed over: {message}"
            await record_railnode_event(self._client, railnode, "ReportPassedOver", note, "Warning")
        return True

    async def _apply_status(self, kind: str, path: str, item: FabricObject | RailNode, status: dict[str, Any]) -> None:
        body = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": item.metadata.name}, "status": status}
        await self._client.apply(path, body, FIELD_MANAGER)

    async def _record_changes(self, fabric: FabricObject, state: _FabricState, comparison: NodeComparison) -> None:
        """Write an event for each fault that is new, and for each that is gone."""
        faults = map_faults(comparison)
        if state.faults is None:
            state.faults = restore_faults(fabric.status.findings or (), faults)
        new = [fault for fault in faults if fault not in state.faults]
        gone = [fault for fault in state.faults - faults.keys() if is_gone(fault, comparison)]
        for fault in new[:_MAX_EVENTS]:
            await self._record_event(fabric, "FaultBetweenNodes", describe_fault(faults[fault]), "Warning")
        for code, ends in sorted(gone, key=str)[:_MAX_EVENTS]:
            await self._record_event(fabric, "FaultGone", f"{code}: {', '.join(map(str, ends))}", "Normal")
        state.faults = (state.faults | faults.keys()) - set(gone)

    async def _record_event(
        self, fabric: FabricObject, reason: str, note: str, event_type: Literal["Normal", "Warning"]
    ) -> None:
        name, uid = fabric.metadata.name, fabric.metadata.uid
        regarding = {"apiVersion": API_VERSION, "kind": "Fabric", "name": name, "uid": uid}
        await record_event(self._client, regarding, Event(reason, note, event_type, action="Compare"))


def drop_comparison(fabric: FabricObject) -> FabricObject:
    """Return the Fabric without condition Consistent and findings, for the writer of the other conditions."""
    others = tuple(condition for condition in fabric.status.conditions if condition.type != CONSISTENT)
    status = msgspec.structs.replace(fabric.status, conditions=others, findings=UNSET)
    return msgspec.structs.replace(fabric, status=status)
