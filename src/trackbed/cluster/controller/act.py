"""Moves for one node, each refused with 409 if the object has changed since it was read.

A move is one or two writes. After a crash between two writes the node is at a stage that repeats the move.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.api.times import format_now
from trackbed.cluster.controller.drain import evict_pods
from trackbed.cluster.controller.objects import CORDONED, NODES, PREPARING_SINCE, RAILNODES, NodeObject, RailNode
from trackbed.cluster.controller.slices import Slices
from trackbed.cluster.controller.stage import Standing
from trackbed.cluster.resources.railnode import API_VERSION, FABRIC_LABEL, KIND, RETRY, TAINT

UNIT_LABEL = "trackbed.dev/unit"
_NO_CHANGE = {"mayChange": None, "mayReboot": None, "changingSince": None, "reboots": None}


class Actor:
    """Moves for the nodes of one Fabric at one generation; each method is a verb of `decide.Verb`."""

    def __init__(
        self,
        client: Client,
        railnodes: Reflector[RailNode],
        nodes: Reflector[NodeObject],
        slices: Slices,
        generation: int,
    ) -> None:
        self._client, self._railnodes, self._nodes = client, railnodes, nodes
        self._slices, self._generation = slices, generation

    async def create(self, standing: Standing) -> None:
        """Create the RailNode of a node, with its plan."""
        assert standing.wanted is not None  # noqa: S101 - by its stage
        fabric = self._slices.plan.common.fabric
        labels = {FABRIC_LABEL: fabric, UNIT_LABEL: str(standing.wanted.unit)}
        metadata = {"name": standing.name, "labels": labels}
        spec = {"fabric": fabric, "slot": standing.wanted.slot, **self._render_plan(standing)}
        railnode = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}
        self._railnodes.record_write(await self._client.create(RAILNODES, railnode))

    async def send(self, standing: Standing) -> None:
        """Write the newest plan; the agent compares, and changes nothing without permission."""
        await self._patch_railnode(standing, {**self._render_plan(standing), "leftAt": None})

    async def begin(self, standing: Standing) -> None:
        """Taint and cordon the node."""
        node = standing.node
        assert node is not None  # noqa: S101 - by its stage
        taints = [msgspec.to_builtins(taint) for taint in node.spec.taints if taint.key != TAINT]
        taints.append({"key": TAINT, "effect": "NoSchedule"})
        annotations: dict[str, str | None] = {PREPARING_SINCE: format_now()}
        if not node.spec.unschedulable:
            annotations[CORDONED] = ""
        await _patch_node(self._client, self._nodes, node, annotations, {"taints": taints, "unschedulable": True})

    guard = begin
    """Restores the taint of a node that is being changed."""

    async def drain(self, standing: Standing) -> tuple[str, ...]:
        """Evict the pods, and let the agent change the node once none is left; return the remaining pods."""
        pods = await evict_pods(self._client, standing.name)
        if not pods:
            firmware = _get_railnode(standing).status.firmware or None
            await self._patch_railnode(standing, {**_restart_change(), "mayChange": True, "firmware": firmware})
        return pods

    async def reboot(self, standing: Standing) -> None:
        """Let the agent end the boot that it reports, and restart the deadline of the change."""
        railnode = _get_railnode(standing)
        permission = {
            "mayReboot": railnode.status.boot,
            "reboots": railnode.spec.reboots + 1,
            "changingSince": format_now(),
        }
        await self._patch_railnode(standing, permission)

    async def retry(self, standing: Standing) -> None:
        """Restart the change of a failed node, or its drain if the agent has no permission yet."""
        if _get_railnode(standing).spec.may_change:
            spec = _restart_change()
        else:
            await self.begin(standing)
            spec = {}
        await self._patch_railnode(standing, spec, {RETRY: None})

    async def finish(self, standing: Standing) -> None:
        """Withdraw the permission to change the node, then its taint and our cordon."""
        if _get_railnode(standing).spec.may_change:
            await self._patch_railnode(standing, {**_NO_CHANGE, "changedGeneration": self._generation})
        await release_node(self._client, self._nodes, standing.node)

    async def leave(self, standing: Standing) -> None:
        """Record when the Fabric stopped listing the node, and release it; the host is left as it is."""
        left_at = _get_railnode(standing).spec.left_at or format_now()
        await self._patch_railnode(standing, {**_NO_CHANGE, "leftAt": left_at})
        await release_node(self._client, self._nodes, standing.node)

    async def forget(self, standing: Standing) -> None:
        """Delete the RailNode of a node whose slot is free again."""
        await self._client.delete(f"{RAILNODES}/{standing.name}")

    def _render_plan(self, standing: Standing) -> dict[str, Any]:
        assert standing.wanted is not None  # noqa: S101 - by its stage
        plan = self._slices.render_document(standing.name)
        return {"generation": self._generation, "plan": plan, "planHash": standing.wanted.digest}

    async def _patch_railnode(
        self, standing: Standing, spec: Mapping[str, Any], annotations: Mapping[str, str | None] | None = None
    ) -> None:
        version = _get_railnode(standing).metadata.resource_version
        metadata = {"resourceVersion": version, "annotations": dict(annotations or {})}
        change = {"metadata": metadata, "spec": dict(spec)}
        self._railnodes.record_write(await self._client.merge(f"{RAILNODES}/{standing.name}", change))


async def release_node(client: Client, nodes: Reflector[NodeObject], node: NodeObject | None) -> None:
    """Remove our taint from a node, and the cordon if this controller set it."""
    if node is None or not (node.tainted or node.metadata.annotations.cordoned is not None):
        return
    taints = [msgspec.to_builtins(taint) for taint in node.spec.taints if taint.key != TAINT]
    spec: dict[str, Any] = {"taints": taints or None}
    if node.metadata.annotations.cordoned is not None:
        spec["unschedulable"] = None
    await _patch_node(client, nodes, node, {PREPARING_SINCE: None, CORDONED: None}, spec)


async def delete_orphan(
    client: Client, nodes: Reflector[NodeObject], railnode: RailNode, node: NodeObject | None
) -> bool:
    """Release the node of a deleted Fabric, and delete its RailNode. Raises KubeError."""
    await release_node(client, nodes, node)
    await client.delete(f"{RAILNODES}/{railnode.metadata.name}")
    return True


async def _patch_node(
    client: Client,
    nodes: Reflector[NodeObject],
    node: NodeObject,
    annotations: Mapping[str, str | None],
    spec: Mapping[str, Any],
) -> None:
    metadata = {"resourceVersion": node.metadata.resource_version, "annotations": dict(annotations)}
    nodes.record_write(await client.merge(f"{NODES}/{node.metadata.name}", {"metadata": metadata, "spec": dict(spec)}))


def _restart_change() -> dict[str, Any]:
    return {"mayReboot": None, "reboots": None, "changingSince": format_now()}


def _get_railnode(standing: Standing) -> RailNode:
    assert standing.railnode is not None  # noqa: S101 - by its stage
    return standing.railnode
