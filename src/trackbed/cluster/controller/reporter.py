"""Status updates of one Fabric and its RailNodes, at most one every REPORT_SECONDS."""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.concurrency import run_all
from trackbed.cluster.api.errors import ApiRefusedError, KubeError
from trackbed.cluster.api.events import Event, record_event
from trackbed.cluster.api.paths import join_path
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.api.times import format_now
from trackbed.cluster.controller import metrics, report
from trackbed.cluster.controller.decide import Decision, StagedNode
from trackbed.cluster.controller.events import record_railnode_event
from trackbed.cluster.controller.objects import FABRICS, RAILNODES, FabricObject, RailNode
from trackbed.cluster.controller.pace import IDLE_SECONDS, RETRY_SECONDS, STALE_STATUSES, Log
from trackbed.cluster.controller.revisions import Revisions
from trackbed.cluster.controller.stage import RolloutRules, Stage
from trackbed.cluster.resources.conditions import find_condition
from trackbed.cluster.resources.fabric import FabricStatus
from trackbed.cluster.resources.railnode import API_VERSION

FIELD_MANAGER = "trackbed-controller"
REPORT_SECONDS = 1.0
"""Shortest interval between two reports."""


class FabricPass(NamedTuple):
    """Results of one pass over a Fabric."""

    decision: Decision
    rules: RolloutRules
    resources: Mapping[str, tuple[str, ...]]
    """Node -> resources of its rails."""
    remaining_pods: Mapping[str, tuple[str, ...]]
    """Node that is being drained -> its remaining pods, each with its state."""


class Reporter:
    """Reports a node's stage once it is unchanged for two reports, and so skips short stages."""

    def __init__(self, client: Client, railnodes: Reflector[RailNode], revisions: Revisions) -> None:
        self._client, self._railnodes, self._revisions = client, railnodes, revisions
        self._stages: dict[str, tuple[Stage, str]] = {}
        self._reported_at = 0.0

    async def report_refusal(self, fabric: FabricObject, reason: str) -> None:
        """Write into a Fabric's status why it cannot be planned, and an event where that is new. Raises KubeError."""
        metrics.record_refusal(fabric)
        status = report.build_refused_status(fabric, reason, format_now())
        await self._apply_fabric_status(fabric, status)
        old, new = (find_condition(entry.conditions, report.ACCEPTED) for entry in (fabric.status, status))
        if (old.status, old.message) != (new.status, new.message):
            regarding = {"apiVersion": API_VERSION, "kind": "Fabric"}
            regarding |= {"name": fabric.metadata.name, "uid": fabric.metadata.uid}
            await record_event(self._client, regarding, Event("Refused", new.message, "Warning"))

    async def report_pass(self, fabric: FabricObject, fabric_pass: FabricPass, log: Log) -> float:
        """Write the results of a pass into the statuses; return the seconds until the next report. Raises KubeError."""
        wait = self._reported_at + REPORT_SECONDS - time.monotonic()
        if wait > 0:
            return wait
        self._reported_at = time.monotonic()
        time_text, nodes = format_now(), fabric_pass.decision.nodes
        stages = {node.snapshot.name: (node.stage, node.message) for node in nodes}
        stable = [node for node in nodes if self._stages.get(node.snapshot.name) == stages[node.snapshot.name]]
        is_changed = len(stable) < len(nodes)
        self._stages = stages
        statuses = [status for node in stable if (status := _build_node_status(node, fabric_pass, time_text))]
        is_complete = all(await run_all([partial(self._apply_railnode_status, status, log) for status in statuses]))
        failed = [node for node in stable if node.stage is Stage.FAILED and report.has_new_stage(node)]
        await run_all([partial(self._report_failure, node) for node in failed])
        decision, rules, resources, _ = fabric_pass
        fabric_status = report.build_fabric_status(fabric, decision, rules, resources, time_text)
        if fabric_status.good_generation != fabric.status.good_generation:
            await self._revisions.save(fabric)
        await self._apply_fabric_status(fabric, fabric_status)
        if not is_complete:
            return RETRY_SECONDS
        return REPORT_SECONDS if is_changed or statuses else IDLE_SECONDS

    async def _apply_railnode_status(self, body: dict[str, Any], log: Log) -> bool:
        """Write the status of one RailNode; return False if the write failed and must be retried."""
        name = body["metadata"]["name"]
        try:
            self._railnodes.record_write(
                await self._client.apply(join_path(RAILNODES, name, "status"), body, FIELD_MANAGER)
            )
        except KubeError as error:
            if isinstance(error, ApiRefusedError) and error.status in STALE_STATUSES:
                return True
            log(f"status of {name}: {error}")
            return False
        return True

    async def _report_failure(self, node: StagedNode) -> None:
        """Count a failed node, and write an event about it."""
        railnode = node.snapshot.railnode
        assert railnode is not None  # noqa: S101 - stage Failed implies a RailNode
        metrics.FAILURES.labels(railnode.spec.fabric).inc()
        await record_railnode_event(self._client, railnode, "Failed", node.message, "Warning")

    async def _apply_fabric_status(self, fabric: FabricObject, status: FabricStatus) -> None:
        if status == fabric.status:
            return
        kind = {"apiVersion": API_VERSION, "kind": "Fabric", "metadata": {"name": fabric.metadata.name}}
        body = {**kind, "status": msgspec.to_builtins(status)}
        await self._client.apply(join_path(FABRICS, fabric.metadata.name, "status"), body, FIELD_MANAGER)


def _build_node_status(node: StagedNode, fabric_pass: FabricPass, time_text: str) -> dict[str, Any] | None:
    name = node.snapshot.name
    pods, resources = fabric_pass.remaining_pods.get(name, ()), fabric_pass.resources.get(name, ())
    return report.build_railnode_status(node, pods, resources, time_text)
