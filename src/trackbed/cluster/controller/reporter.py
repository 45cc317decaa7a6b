"""Status updates of the objects of one Fabric, at most one each `REPORT_SECONDS`."""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import ApiRefusedError, KubeError
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.api.times import format_now
from trackbed.cluster.controller import metrics, report
from trackbed.cluster.controller.decide import Decision, StagedNode
from trackbed.cluster.controller.events import record_railnode_event
from trackbed.cluster.controller.objects import FABRICS, RAILNODES, FabricObject, RailNode
from trackbed.cluster.controller.pace import IDLE_SECONDS, RETRY_SECONDS, STALE_STATUSES, Log, run_all
from trackbed.cluster.controller.revisions import Revisions
from trackbed.cluster.controller.stage import Rules, Stage
from trackbed.cluster.resources.fabric import FabricStatus
from trackbed.cluster.resources.railnode import API_VERSION

MANAGER = "trackbed-controller"
REPORT_SECONDS = 1.0


class FabricPass(NamedTuple):
    """The results of one pass that are reported."""

    decision: Decision
    rules: Rules
    resources: Mapping[str, tuple[str, ...]]
    """Node -> the resources of its rails."""
    remaining_pods: Mapping[str, tuple[str, ...]]
    """Node being drained -> its remaining pods, with reasons."""


class Reporter:
    """Reports each stage of a node once, after it has lasted for two reports."""

    def __init__(self, client: Client, railnodes: Reflector[RailNode], revisions: Revisions) -> None:
        self._client, self._railnodes, self._revisions = client, railnodes, revisions
        self._stages: dict[str, tuple[Stage, str]] = {}
        self._reported_at = 0.0

    async def report_refusal(self, fabric: FabricObject, reason: str) -> None:
        """Report why a Fabric cannot be planned."""
        metrics.record_refusal(fabric)
        await self._apply_fabric_status(fabric, report.build_refused_status(fabric, reason, format_now()))

    async def report_pass(self, fabric: FabricObject, fabric_pass: FabricPass, log: Log) -> float:
        """Report the results of a pass; return the seconds until the next report."""
        wait = self._reported_at + REPORT_SECONDS - time.monotonic()
        if wait > 0:
            return wait
        self._reported_at = time.monotonic()
        time_text, nodes = format_now(), fabric_pass.decision.nodes
        stages = {node.standing.name: (node.stage, node.message) for node in nodes}
        stable = [node for node in nodes if self._stages.get(node.standing.name) == stages[node.standing.name]]
        is_changed = len(stable) < len(nodes)
        self._stages = stages
        statuses = [status for node in stable if (status := _build_status(node, fabric_pass, time_text))]
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
        name = body["metadata"]["name"]
        try:
            self._railnodes.record_write(await self._client.apply(f"{RAILNODES}/{name}/status", body, MANAGER))
        except KubeError as error:
            if isinstance(error, ApiRefusedError) and error.status in STALE_STATUSES:
                return True
            log(f"status of {name}: {error}")
            return False
        return True

    async def _report_failure(self, node: StagedNode) -> bool:
        railnode = node.standing.railnode
        assert railnode is not None  # noqa: S101 - only nodes with a RailNode fail
        metrics.FAILURES.labels(railnode.spec.fabric).inc()
        await record_railnode_event(self._client, railnode, "Failed", node.message, "Warning")
        return True

    async def _apply_fabric_status(self, fabric: FabricObject, status: FabricStatus) -> None:
        if status == fabric.status:
            return
        kind = {"apiVersion": API_VERSION, "kind": "Fabric", "metadata": {"name": fabric.metadata.name}}
        body = {**kind, "status": msgspec.to_builtins(status)}
        await self._client.apply(f"{FABRICS}/{fabric.metadata.name}/status", body, MANAGER)


def _build_status(node: StagedNode, fabric_pass: FabricPass, time_text: str) -> dict[str, Any] | None:
    name = node.standing.name
    pods, resources = fabric_pass.remaining_pods.get(name, ()), fabric_pass.resources.get(name, ())
    return report.build_railnode_status(node, pods, resources, time_text)
