"""The fields of Fabrics, Nodes and RailNodes that the controller reads; decoding skips the others.

A controller of 10,000 nodes uses 105 MB of memory (`scripts/bench control`).
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from trackbed.cluster.api.metadata import ObjectMetadata
from trackbed.cluster.resources import fabric, railnode
from trackbed.cluster.resources.conditions import Condition
from trackbed.cluster.resources.node_report import MAX_REPORT_BYTES
from trackbed.cluster.resources.railnode import ALLOW_REMOVAL, FABRIC_LABEL, PAUSED, RETRY, TAINT, RailNodeSlice

CORDONED = "trackbed.dev/cordoned"
"""Annotation of a Node that the controller cordoned, and may therefore uncordon."""
PREPARING_SINCE = "trackbed.dev/preparing-since"
"""Annotation of a Node with the time at which it was tainted (RFC 3339)."""

FABRICS = fabric.PATH
RAILNODES = railnode.PATH
NODES = "/api/v1/nodes"


class _FabricLabel(msgspec.Struct, frozen=True, gc=False):
    """The label of a RailNode with the name of its Fabric."""

    fabric: str | None = msgspec.field(default=None, name=FABRIC_LABEL)


class _ControlAnnotations(msgspec.Struct, frozen=True, gc=False):
    """The annotations by which users and the controller mark objects."""

    paused: str | None = msgspec.field(default=None, name=PAUSED)
    allow_removal: str | None = msgspec.field(default=None, name=ALLOW_REMOVAL)
    retry: str | None = msgspec.field(default=None, name=RETRY)
    cordoned: str | None = msgspec.field(default=None, name=CORDONED)
    preparing_since: str | None = msgspec.field(default=None, name=PREPARING_SINCE)
    rollback: str | None = msgspec.field(default=None, name=fabric.ROLLBACK)


class ControlledMetadata(ObjectMetadata, frozen=True, rename="camel"):
    """Metadata of an object, with the labels and annotations that the controller reads."""

    labels: _FabricLabel = _FabricLabel()
    annotations: _ControlAnnotations = _ControlAnnotations()


class _FabricMetadata(ControlledMetadata, frozen=True, rename="camel"):
    """Metadata of a Fabric, with the time of its creation (RFC 3339), which has whole seconds and ends with Z."""

    creation_timestamp: str = ""


class Taint(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A taint of a Node with all its fields, since taints are written back."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class _NodeSpec(msgspec.Struct, frozen=True):
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class _NodeCondition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _NodeStatus(msgspec.Struct, frozen=True):
    conditions: tuple[_NodeCondition, ...] = ()
    allocatable: dict[str, str] = {}

    def __post_init__(self) -> None:
        extended = {name: count for name, count in self.allocatable.items() if "/" in name and count != "0"}
        if sum(map(len, (*extended, *extended.values()))) <= _MOST_INTERNED:
            extended = _intern_resources(tuple(extended.items()))
        msgspec.structs.force_setattr(self, "allocatable", extended)


_MOST_INTERNED = 4096
"""Characters of a node's resources up to which nodes share them: what any kubelet may write would fill the cache."""


@lru_cache(maxsize=1024)
def _intern_resources(resources: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return the resources as a dictionary that equal nodes share; 10,000 copies would take 20 MB."""
    return dict(resources)


class NodeObject(msgspec.Struct, frozen=True):
    """A Node (v1) with the fields that the controller reads."""

    metadata: ControlledMetadata
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()

    @property
    def ready(self) -> bool:
        """Whether the node's kubelet reports that it is Ready."""
        conditions = self.status.conditions
        return any(condition.type == "Ready" and condition.status == "True" for condition in conditions)

    @property
    def resources(self) -> Mapping[str, str]:
        """The extended resources that the node offers to pods: name -> quantity."""
        return self.status.allocatable

    @property
    def tainted(self) -> bool:
        """Whether the node has our taint, which it has while it is prepared."""
        return any(taint.key == TAINT for taint in self.spec.taints)

    @property
    def marked(self) -> bool:
        """Whether the node has our taint or the mark of our cordon, which a release removes together.

        The taint alone is gone if another program or an operator removed it.
        """
        return self.tainted or self.metadata.annotations.cordoned is not None

    @property
    def withdrawn(self) -> bool:
        """Whether the controller has withdrawn the node from pods, by its taint or by its cordon alone."""
        return self.tainted or (self.spec.unschedulable and not self.cordoned_by_others)

    @property
    def cordoned_by_others(self) -> bool:
        """Whether the node is cordoned, but not by the controller."""
        return self.spec.unschedulable and self.metadata.annotations.cordoned is None

    @property
    def unavailable(self) -> bool:
        """Whether the node accepts no pods now, for any reason."""
        return self.tainted or self.spec.unschedulable or not self.ready


class _RailNodeStatus(msgspec.Struct, frozen=True, rename="camel"):
    observed_hash: str = ""
    boot: str = ""
    needs_reboot: bool = False
    firmware: bool = False
    conditions: tuple[Condition, ...] = ()
    report: Any = None
    """JSON of the agent's report as bytes, since its objects take five times as much; cut behind MAX_REPORT_BYTES."""

    def __post_init__(self) -> None:
        if self.report is not None and not isinstance(self.report, bytes):
            packed = msgspec.json.encode(self.report)[: MAX_REPORT_BYTES + 1]
            msgspec.structs.force_setattr(self, "report", packed)


class RailNode(msgspec.Struct, frozen=True):
    """A RailNode, without the plan in its spec."""

    metadata: ControlledMetadata
    spec: RailNodeSlice
    status: _RailNodeStatus = _RailNodeStatus()


class FabricObject(msgspec.Struct, frozen=True, rename="camel"):
    """A Fabric; its spec is decoded only for a new generation."""

    metadata: _FabricMetadata
    spec: msgspec.Raw
    status: fabric.FabricStatus = fabric.FabricStatus()

    @property
    def rolled_back(self) -> bool:
        """Whether the current generation is rolled back to the last good one before it."""
        return self.metadata.annotations.rollback == str(self.metadata.generation)
