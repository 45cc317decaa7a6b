"""State of the Fabrics of a cluster, and of all nodes that are not sound.

Nodes are read as a table, like `kubectl get railnodes`: the server sends only the printed columns, without plans and
managed fields.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import KubeError, UnknownKindError
from trackbed.cluster.api.response import Object, convert_object
from trackbed.cluster.resources import fabric, railnode
from trackbed.cluster.resources.conditions import find_condition

_SOUND = "Sound"
_URGENT_STAGES = ("Failed", "Held", "Draining", "Changing", "Rebooting", "Waiting")
"""Stages that are listed first, by urgency."""
_FAILED_STATES = frozenset({"Halted", "Failed", "Invalid"})


@dataclass(frozen=True, slots=True)
class FabricSummary:
    """State of one Fabric, and counts of its nodes."""

    name: str
    nodes: int
    sound: int
    changing: int
    waiting: int
    failed: int
    absent: int
    offered: int | None
    """Nodes that offer all their rails; None if the stack has no resource for each rail."""
    state: str
    """Complete, Rolling, Paused, Halted, Failed or Invalid; empty without a status from a controller."""
    why: str
    consistent: str = ""
    """Whether the nodes agree with each other: True, False or Unknown; empty without a comparison by a controller."""
    consistency: str = ""
    """What the comparison came to, in a sentence."""
    findings: tuple[fabric.FabricFinding, ...] = ()
    """The first few faults between nodes."""

    @property
    def wrong(self) -> bool:
        """Whether an operator must act: a node failed, the roll-out halted, the plan is refused, or nodes collide."""
        is_broken = any(finding.verdict == "fail" for finding in self.findings)
        return bool(self.failed) or self.state in _FAILED_STATES or is_broken


@dataclass(frozen=True, slots=True)
class UnsoundNode:
    """A node whose stage is not Sound; `since` is the age of the stage in kubectl's format: 5m, 3h12m, 4d."""

    name: str
    fabric: str
    stage: str
    since: str
    why: str


async def list_fabric_summaries(client: DynamicClient) -> tuple[FabricSummary, ...]:
    """Return a summary of every Fabric; empty if the server has no such kind. Raises KubeError."""
    try:
        return tuple([_summarize_fabric(body) async for body in client.iter_objects(railnode.API_VERSION, "Fabric")])
    except UnknownKindError:
        return ()


async def list_unsound_nodes(client: DynamicClient) -> tuple[UnsoundNode, ...]:
    """Return every node whose stage is not Sound, failed nodes first; empty without the kind. Raises KubeError."""
    try:
        return tuple(sorted([node async for node in _iter_unsound_nodes(client)], key=_get_sort_key))
    except UnknownKindError:
        return ()


def _summarize_fabric(body: Object) -> FabricSummary:
    name = body["metadata"]["name"]
    try:
        status = convert_object(body.get("status") or {}, fabric.FabricStatus, f"Fabric/{name}")
    except KubeError as error:  # one Fabric must not hide the others
        return FabricSummary(name, 0, 0, 0, 0, 0, 0, None, "Invalid", f"its status is not understood: {error}")
    accepted, progressing = (find_condition(status.conditions, kind) for kind in ("Accepted", "Progressing"))
    state = accepted if accepted.status == "False" else progressing
    counts = (status.nodes, status.sound, status.changing, status.waiting, status.failed, status.absent)
    offered = None if status.offered is msgspec.UNSET else status.offered
    consistent = find_condition(status.conditions, fabric.CONSISTENT)
    return FabricSummary(
        name,
        *counts,
        offered,
        state.reason,
        state.message,
        consistent.status if consistent.reason else "",
        consistent.message,
        status.findings or (),
    )


async def _iter_unsound_nodes(client: DynamicClient) -> AsyncIterator[UnsoundNode]:
    async for row in client.iter_table_rows(railnode.API_VERSION, railnode.KIND):
        if row.get("Stage") != _SOUND:
            yield UnsoundNode(*(str(row.get(title) or "") for title in ("Name", "Fabric", "Stage", "Since", "Why")))


def _get_sort_key(node: UnsoundNode) -> tuple[int, str, str]:
    return (
        _URGENT_STAGES.index(node.stage) if node.stage in _URGENT_STAGES else len(_URGENT_STAGES),
        node.fabric,
        node.name,
    )
