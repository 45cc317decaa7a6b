"""State of the Fabrics of a cluster, and of all nodes that are not sound.

Nodes are read as a table, as `kubectl get railnodes` does: the server sends the printed columns alone, without plans
and managers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import UnknownKindError
from trackbed.cluster.api.response import Object, convert
from trackbed.cluster.resources import fabric, railnode
from trackbed.cluster.resources.conditions import find

_SOUND = "Sound"
_FIRST = ("Failed", "Held", "Draining", "Changing", "Rebooting", "Waiting")
"""Stages by urgency; others follow."""
_WRONG = frozenset({"Halted", "Failed", "Invalid"})


@dataclass(frozen=True, slots=True)
class FabricSummary:
    """One Fabric: counts of its nodes, its state, and a message."""

    name: str
    nodes: int
    sound: int
    changing: int
    waiting: int
    failed: int
    absent: int
    offered: int | None
    """Nodes that offer each of their rails; None where their stack has no resource for each."""
    state: str
    """Complete, Rolling, Paused, Halted, Failed, Invalid; empty where no controller has seen it."""
    why: str

    @property
    def wrong(self) -> bool:
        """Whether a person must act: a node failed, the roll-out halted, or the Fabric cannot be planned."""
        return bool(self.failed) or self.state in _WRONG


@dataclass(frozen=True, slots=True)
class UnsoundNode:
    """A node that is not Sound; `since` is the age of this stage, as kubectl prints it: 5m, 3h12m, 4d."""

    name: str
    fabric: str
    stage: str
    since: str
    why: str


async def list_fabrics(client: DynamicClient) -> tuple[FabricSummary, ...]:
    """Return every Fabric by name; none where the cluster has no such kind. Raises KubeError."""
    try:
        return tuple([_summarize(body) async for body in client.list(railnode.API_VERSION, "Fabric")])
    except UnknownKindError:
        return ()


async def list_unsound_nodes(client: DynamicClient) -> tuple[UnsoundNode, ...]:
    """Return every node that is not Sound, failed ones first. Raises KubeError."""
    try:
        return tuple(sorted([node async for node in _read_unsound_nodes(client)], key=_rank))
    except UnknownKindError:
        return ()


def _summarize(body: Object) -> FabricSummary:
    name = body["metadata"]["name"]
    status = convert(body.get("status") or {}, fabric.FabricStatus, f"Fabric/{name}")
    accepted, progressing = (find(status.conditions, kind) for kind in ("Accepted", "Progressing"))
    state = accepted if accepted.status == "False" else progressing
    counts = (status.nodes, status.sound, status.changing, status.waiting, status.failed, status.absent)
    offered = None if status.offered is msgspec.UNSET else status.offered
    return FabricSummary(name, *counts, offered, state.reason, state.message)


async def _read_unsound_nodes(client: DynamicClient) -> AsyncIterator[UnsoundNode]:
    async for row in client.read_table(railnode.API_VERSION, railnode.KIND):
        if row.get("Stage") != _SOUND:
            yield UnsoundNode(*(str(row.get(title) or "") for title in ("Name", "Fabric", "Stage", "Since", "Why")))


def _rank(node: UnsoundNode) -> tuple[int, str, str]:
    return _FIRST.index(node.stage) if node.stage in _FIRST else len(_FIRST), node.fabric, node.name
