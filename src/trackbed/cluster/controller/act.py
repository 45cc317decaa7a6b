"""One thing done to one node, and only if nobody has written the object since it was looked at (409 otherwise).

Each is a write or two; between two the node stands at a stage from which the same verb goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.api.times import now
from trackbed.cluster.controller.drain import evict_pods
from trackbed.cluster.controller.objects import CORDONED, NODES, RAILNODES, SINCE, NodeObject, RailNode
from trackbed.cluster.controller.slices import Slices
from trackbed.cluster.controller.stage import Standing
from trackbed.cluster.resources.railnode import API_VERSION, FABRIC_LABEL, KIND, RETRY, TAINT

UNIT_LABEL = "trackbed.dev/unit"


class Actor:
    """What can be done to a node of one Fabric, at one generation of it."""

    def __init__(
        self,
        client: Client,
        railnodes: Reflector[RailNode],
        nodes: Reflector[NodeObject],
        wanted: Slices,
        generation: int,
    ) -> None:
        self._client, self._railnodes, self._nodes = client, railnodes, nodes
        self._wanted, self._generation = wanted, generation

    async def create(self, one: Standing) -> None:
        """Make the RailNode of a node, with its plan."""
        assert one.wanted is not None  # noqa: S101 - by its stage
        labels = {FABRIC_LABEL: self._wanted.plan.common.fabric, UNIT_LABEL: str(one.wanted.unit)}
        metadata = {"name": one.name, "labels": labels}
        fixed = {"fabric": self._wanted.plan.common.fabric, "slot": one.wanted.slot}
        made = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {**fixed, **self._sent(one)}}
        self._railnodes.record_write(await self._client.create(RAILNODES, made))

    async def send(self, one: Standing) -> None:
        """Tell the node its newest plan; its agent compares, and changes nothing unless it may already."""
        await self._railnode(one, {**self._sent(one), "leftAt": None})

    async def begin(self, one: Standing) -> None:
        """Taint and cordon the node."""
        node = _node(one)
        taints = [msgspec.to_builtins(taint) for taint in node.spec.taints if taint.key != TAINT]
        taints.append({"key": TAINT, "effect": "NoSchedule"})
        marks: dict[str, str | None] = {SINCE: now()}
        if not node.spec.unschedulable:
            marks[CORDONED] = ""
        await _write(self._client, self._nodes, node, marks, {"taints": taints, "unschedulable": True})

    guard = begin
    """Somebody took the taint from a node that is being changed: it gets it back."""

    async def drain(self, one: Standing) -> tuple[str, ...]:
        """Ask the pods to leave; once none is left the agent may change the node. Who is still there, and why."""
        left = await evict_pods(self._client, one.name)
        if not left:
            fresh = {"mayReboot": None, "reboots": None, "changingSince": now(), "mayChange": True}
            await self._railnode(one, {**fresh, "firmware": _rail(one).status.firmware or None})
        return left

    async def reboot(self, one: Standing) -> None:
        """Let the agent end the boot that it reports; its time begins anew."""
        rail = _rail(one)
        allowed = {"mayReboot": rail.status.boot, "reboots": rail.spec.reboots + 1, "changingSince": now()}
        await self._railnode(one, allowed)

    async def retry(self, one: Standing) -> None:
        """Let a failed node try anew: its agent, or its pods to leave."""
        if not _rail(one).spec.may_change:
            await self.begin(one)
            await self._railnode(one, {}, {RETRY: None})
            return
        fresh = {"mayReboot": None, "reboots": None, "changingSince": now()}
        await self._railnode(one, fresh, {RETRY: None})

    async def finish(self, one: Standing) -> None:
        """Take back the permission to change it, then the taint and the cordon, if that was ours."""
        if _rail(one).spec.may_change:
            done = {"mayChange": None, "mayReboot": None, "changingSince": None, "reboots": None}
            await self._railnode(one, {**done, "changedGeneration": self._generation})
        await free(self._client, self._nodes, one.node)

    async def leave(self, one: Standing) -> None:
        """Note since when the Fabric names the node no longer, and let go of it; the host stays as it is."""
        done = {"mayChange": None, "mayReboot": None, "changingSince": None, "reboots": None}
        await self._railnode(one, {**done, "leftAt": _rail(one).spec.left_at or now()})
        await free(self._client, self._nodes, one.node)

    async def forget(self, one: Standing) -> None:
        """Delete the RailNode of a node whose slot is free again."""
        await self._client.delete(f"{RAILNODES}/{one.name}")

    def _sent(self, one: Standing) -> dict[str, Any]:
        assert one.wanted is not None  # noqa: S101 - by its stage
        plan = self._wanted.document(one.name)
        return {"generation": self._generation, "plan": plan, "planHash": one.wanted.digest}

    async def _railnode(
        self, one: Standing, spec: Mapping[str, Any], marks: Mapping[str, str | None] | None = None
    ) -> None:
        metadata = {"resourceVersion": _rail(one).metadata.resource_version, "annotations": dict(marks or {})}
        change = {"metadata": metadata, "spec": dict(spec)}
        self._railnodes.record_write(await self._client.merge(f"{RAILNODES}/{one.name}", change))


async def free(client: Client, nodes: Reflector[NodeObject], node: NodeObject | None) -> None:
    """Take taint and cordon from a node, as far as they are ours."""
    if node is None or not (node.begun or node.metadata.annotations.cordoned is not None):
        return
    taints = [msgspec.to_builtins(taint) for taint in node.spec.taints if taint.key != TAINT]
    spec: dict[str, Any] = {"taints": taints or None}
    if node.metadata.annotations.cordoned is not None:
        spec["unschedulable"] = None
    await _write(client, nodes, node, {SINCE: None, CORDONED: None}, spec)


async def let_go(client: Client, nodes: Reflector[NodeObject], rail: RailNode, node: NodeObject | None) -> bool:
    """Delete the RailNode of a Fabric that is no more, and free its node. Raises KubeError."""
    await free(client, nodes, node)
    await client.delete(f"{RAILNODES}/{rail.metadata.name}")
    return True


async def _write(
    client: Client,
    nodes: Reflector[NodeObject],
    node: NodeObject,
    marks: Mapping[str, str | None],
    spec: Mapping[str, Any],
) -> None:
    metadata = {"resourceVersion": node.metadata.resource_version, "annotations": dict(marks)}
    nodes.record_write(await client.merge(f"{NODES}/{node.metadata.name}", {"metadata": metadata, "spec": dict(spec)}))


def _rail(one: Standing) -> RailNode:
    assert one.rail is not None  # noqa: S101 - by its stage
    return one.rail


def _node(one: Standing) -> NodeObject:
    assert one.node is not None  # noqa: S101 - by its stage
    return one.node
