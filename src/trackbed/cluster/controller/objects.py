"""Fabrics, Nodes and RailNodes as far as a controller reads them; everything else is skipped while decoding.

A controller of 10,000 nodes has 105 MB in all (`scripts/bench control`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from trackbed.cluster.api.metadata import ObjectMetadata
from trackbed.cluster.resources import fabric, railnode
from trackbed.cluster.resources.conditions import Condition
from trackbed.cluster.resources.railnode import FABRIC_LABEL, PAUSED, RETRY, TAINT, RailNodeSlice

CORDONED = "trackbed.dev/cordoned"
"""Annotation on a Node that the controller cordoned: only then does it uncordon it."""
SINCE = "trackbed.dev/preparing-since"
"""Annotation on a Node: since when it carries the taint (RFC 3339)."""
ROLLBACK = "trackbed.dev/rollback"
"""Annotation on a Fabric: the generation that is not wanted; the last good one is carried out until the next."""

FABRICS = fabric.PATH
RAILNODES = railnode.PATH
NODES = "/api/v1/nodes"


class _FabricLabel(msgspec.Struct, frozen=True, gc=False):
    fabric: str | None = msgspec.field(default=None, name=FABRIC_LABEL)


class _ControlAnnotations(msgspec.Struct, frozen=True, gc=False):
    paused: str | None = msgspec.field(default=None, name=PAUSED)
    retry: str | None = msgspec.field(default=None, name=RETRY)
    cordoned: str | None = msgspec.field(default=None, name=CORDONED)
    since: str | None = msgspec.field(default=None, name=SINCE)
    rollback: str | None = msgspec.field(default=None, name=ROLLBACK)


class ControlledMetadata(ObjectMetadata, frozen=True, rename="camel"):
    """Metadata of an object with the labels and annotations that a controller reads."""

    labels: _FabricLabel = _FabricLabel()
    annotations: _ControlAnnotations = _ControlAnnotations()


class Taint(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A taint as it stands on a Node; written back as it was."""

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
        extended = tuple((name, count) for name, count in self.allocatable.items() if "/" in name and count != "0")
        msgspec.structs.force_setattr(self, "allocatable", _shared(extended))


@lru_cache(maxsize=1024)
def _shared(resources: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """One value for all nodes that are alike: 10,000 of them would have 20 MB of the same few words."""
    return dict(resources)


class NodeObject(msgspec.Struct, frozen=True):
    """A node of the cluster."""

    metadata: ControlledMetadata
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()

    @property
    def ready(self) -> bool:
        """Whether its kubelet says that it takes pods."""
        return any(one.type == "Ready" and one.status == "True" for one in self.status.conditions)

    @property
    def offers(self) -> Mapping[str, str]:
        """The extended resources of which it has any for pods."""
        return self.status.allocatable

    @property
    def begun(self) -> bool:
        """Whether it carries the taint of a node that is being prepared."""
        return any(taint.key == TAINT for taint in self.spec.taints)

    @property
    def cordoned_by_others(self) -> bool:
        """Whether somebody else keeps pods away from it."""
        return self.spec.unschedulable and self.metadata.annotations.cordoned is None

    @property
    def unavailable(self) -> bool:
        """Whether it takes no pods now, for whatever reason."""
        return self.begun or self.spec.unschedulable or not self.ready


class _RailNodeStatus(msgspec.Struct, frozen=True, rename="camel"):
    observed_hash: str = ""
    boot: str = ""
    needs_reboot: bool = False
    firmware: bool = False
    conditions: tuple[Condition, ...] = ()


class RailNode(msgspec.Struct, frozen=True):
    """A node of a Fabric."""

    metadata: ControlledMetadata
    spec: RailNodeSlice
    status: _RailNodeStatus = _RailNodeStatus()


class FabricObject(msgspec.Struct, frozen=True, rename="camel"):
    """A Fabric; its spec is read only when its generation is a new one."""

    metadata: ControlledMetadata
    spec: msgspec.Raw
    status: fabric.FabricStatus = fabric.FabricStatus()

    @property
    def rolled_back(self) -> bool:
        """Whether somebody does not want this generation, so that a good one before it is carried out."""
        return self.metadata.annotations.rollback == str(self.metadata.generation)
