"""Moves: the writes that roll out one node. The server refuses a write if the object has changed since (409).

A move is one or two writes. After a crash between the two, the next pass repeats the move.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.paths import join_path
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.api.times import format_now
from trackbed.cluster.controller.decide import Verb
from trackbed.cluster.controller.drain import evict_pods
from trackbed.cluster.controller.objects import CORDONED, NODES, PREPARING_SINCE, RAILNODES, NodeObject, RailNode
from trackbed.cluster.controller.slices import Slices
from trackbed.cluster.controller.stage import NodeSnapshot, RolloutRules, may_repair
from trackbed.cluster.resources.conditions import find_condition
from trackbed.cluster.resources.railnode import (
    API_VERSION,
    FABRIC_LABEL,
    HELD_REASONS,
    KIND,
    PREPARED,
    RETRY,
    TAINT,
)
from trackbed.fabric.plan.node_document import to_node_document

UNIT_LABEL = "trackbed.dev/unit"
"""Label of a RailNode with the number of its scalable unit."""
_NO_PERMISSION = {"mayChange": None, "allowRemoval": None, "mayReboot": None, "changingSince": None, "reboots": None}
"""Fields of a RailNode's spec that withdraw the permission to change its node."""


class Actor:
    """Makes moves for the nodes of one Fabric at one generation."""

    def __init__(
        self,
        client: Client,
        railnodes: Reflector[RailNode],
        nodes: Reflector[NodeObject],
        slices: Slices,
        rules: RolloutRules,
    ) -> None:
        self._client, self._railnodes, self._nodes = client, railnodes, nodes
        self._slices, self._rules = slices, rules

    async def make_move(self, verb: Verb, snapshot: NodeSnapshot) -> None:
        """Make a move other than `drain` for one node. Raises KubeError."""
        moves: Mapping[Verb, Callable[[NodeSnapshot], Awaitable[None]]] = {
            "create": self.create_railnode,
            "send": self.send_plan,
            "begin": self.begin_change,
            "guard": self.begin_change,  # the same write restores the taint of a node that is being changed
            "reboot": self.permit_reboot,
            "retry": self.retry_change,
            "permit": self.set_repair_permission,
            "finish": self.finish_change,
            "leave": self.release_unlisted_node,
            "forget": self.delete_railnode,
        }
        await moves[verb](snapshot)

    async def create_railnode(self, snapshot: NodeSnapshot) -> None:
        """Create the RailNode of a node, with its plan."""
        assert snapshot.plan_slice is not None  # noqa: S101 - stage New implies a slice
        fabric = self._slices.plan.common.fabric
        labels = {FABRIC_LABEL: fabric, UNIT_LABEL: str(snapshot.plan_slice.unit)}
        metadata = {"name": snapshot.name, "labels": labels}
        repair = {"mayRepair": True} if may_repair(snapshot, self._rules) else {}
        spec = {"fabric": fabric, "slot": snapshot.plan_slice.slot, **self._build_plan_fields(snapshot), **repair}
        railnode = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}
        self._railnodes.record_write(await self._client.create(RAILNODES, railnode))

    async def send_plan(self, snapshot: NodeSnapshot) -> None:
        """Write the newest plan into the RailNode. The agent changes nothing without permission."""
        await self._patch_railnode(
            snapshot, {**self._build_plan_fields(snapshot), **_build_removal_permission(self._rules), "leftAt": None}
        )

    async def begin_change(self, snapshot: NodeSnapshot) -> None:
        """Taint and cordon the node of a snapshot, so that its change may begin."""
        node = snapshot.node
        assert node is not None  # noqa: S101 - stages Waiting and Extended imply a Node
        taints = [msgspec.to_builtins(taint) for taint in node.spec.taints if taint.key != TAINT]
        taints.append({"key": TAINT, "effect": "NoSchedule"})
        annotations: dict[str, str | None] = {PREPARING_SINCE: format_now()}
        if not node.spec.unschedulable:
            annotations[CORDONED] = ""
        await _patch_node(self._client, self._nodes, node, annotations, {"taints": taints, "unschedulable": True})

    async def drain_node(self, snapshot: NodeSnapshot) -> tuple[str, ...]:
        """Evict the pods of a node; return the remaining pods as text. If there are none, permit the change."""
        pods = await evict_pods(self._client, snapshot.name)
        if not pods:
            firmware = _get_railnode(snapshot).status.firmware or None
            await self._patch_railnode(
                snapshot, {**_build_restart(self._rules), "mayChange": True, "firmware": firmware}
            )
        return pods

    async def permit_reboot(self, snapshot: NodeSnapshot) -> None:
        """Permit the agent to reboot from the boot that it reports, and restart the deadline of the change."""
        railnode = _get_railnode(snapshot)
        permission = {
            "mayReboot": railnode.status.boot,
            "reboots": railnode.spec.reboots + 1,
            "changingSince": format_now(),
        }
        await self._patch_railnode(snapshot, permission)

    async def retry_change(self, snapshot: NodeSnapshot) -> None:
        """Restart the change of a failed node, its drain if the change is not permitted yet, or repairs in place."""
        railnode = _get_railnode(snapshot)
        spec: dict[str, Any]
        if railnode.spec.may_change:
            spec = _build_restart(self._rules)
        elif find_condition(railnode.status.conditions, PREPARED).reason in HELD_REASONS:
            spec = {"repairsAfter": format_now()}
        else:
            await self.begin_change(snapshot)
            spec = {}
        await self._patch_railnode(snapshot, spec, {RETRY: None})

    async def set_repair_permission(self, snapshot: NodeSnapshot) -> None:
        """Give or withdraw the permission to repair drift in place."""
        await self._patch_railnode(snapshot, {"mayRepair": may_repair(snapshot, self._rules) or None})

    async def finish_change(self, snapshot: NodeSnapshot) -> None:
        """Withdraw the permission to change the node, then release the node."""
        if _get_railnode(snapshot).spec.may_change:
            await self._patch_railnode(snapshot, {**_NO_PERMISSION, "changedGeneration": self._rules.generation})
        await release_node(self._client, self._nodes, snapshot.node)

    async def release_unlisted_node(self, snapshot: NodeSnapshot) -> None:
        """Record when the node left the Fabric, and release it. The host is left as it is."""
        left_at = _get_railnode(snapshot).spec.left_at or format_now()
        await self._patch_railnode(snapshot, {**_NO_PERMISSION, "mayRepair": None, "leftAt": left_at})
        await release_node(self._client, self._nodes, snapshot.node)

    async def delete_railnode(self, snapshot: NodeSnapshot) -> None:
        """Delete the RailNode of a node that left the Fabric and whose slot is free again."""
        await self._client.delete(join_path(RAILNODES, snapshot.name))

    def _build_plan_fields(self, snapshot: NodeSnapshot) -> dict[str, Any]:
        assert snapshot.plan_slice is not None  # noqa: S101 - the stages that call this imply a slice
        plan = to_node_document(self._slices.plans[snapshot.name])
        return {"generation": self._rules.generation, "plan": plan, "planHash": snapshot.plan_slice.digest}

    async def _patch_railnode(
        self, snapshot: NodeSnapshot, spec: Mapping[str, Any], annotations: Mapping[str, str | None] | None = None
    ) -> None:
        version = _get_railnode(snapshot).metadata.resource_version
        metadata = {"resourceVersion": version, "annotations": dict(annotations or {})}
        change = {"metadata": metadata, "spec": dict(spec)}
        self._railnodes.record_write(await self._client.merge(join_path(RAILNODES, snapshot.name), change))


async def release_node(
    client: Client, nodes: Reflector[NodeObject], node: NodeObject | None, taint_keys: Collection[str] = (TAINT,)
) -> None:
    """Remove these taints from a node, and its cordon if the controller set it. Raises KubeError."""
    if node is None:
        return
    taints = [msgspec.to_builtins(taint) for taint in node.spec.taints if taint.key not in taint_keys]
    if len(taints) == len(node.spec.taints) and node.metadata.annotations.cordoned is None:
        return
    spec: dict[str, Any] = {"taints": taints or None}
    if node.metadata.annotations.cordoned is not None:
        spec["unschedulable"] = None
    await _patch_node(client, nodes, node, {PREPARING_SINCE: None, CORDONED: None}, spec)


async def remove_orphan(
    client: Client, nodes: Reflector[NodeObject], railnode: RailNode, node: NodeObject | None
) -> None:
    """Release the node of a deleted Fabric, and delete its RailNode. Raises KubeError."""
    await release_node(client, nodes, node)
    await client.delete(join_path(RAILNODES, railnode.metadata.name))


async def _patch_node(
    client: Client,
    nodes: Reflector[NodeObject],
    node: NodeObject,
    annotations: Mapping[str, str | None],
    spec: Mapping[str, Any],
) -> None:
    metadata = {"resourceVersion": node.metadata.resource_version, "annotations": dict(annotations)}
    nodes.record_write(
        await client.merge(join_path(NODES, node.metadata.name), {"metadata": metadata, "spec": dict(spec)})
    )


def _build_removal_permission(rules: RolloutRules) -> dict[str, Any]:
    return {"allowRemoval": rules.allow_removal or None}


def _build_restart(rules: RolloutRules) -> dict[str, Any]:
    """Return the fields of a RailNode's spec that restart the change of its node."""
    return {**_build_removal_permission(rules), "mayReboot": None, "reboots": None, "changingSince": format_now()}


def _get_railnode(snapshot: NodeSnapshot) -> RailNode:
    assert snapshot.railnode is not None  # noqa: S101 - all stages but New imply a RailNode
    return snapshot.railnode
