"""The status of a Fabric as a custom resource; its `spec` is in `fabric.model.fabric`."""

from typing import Literal

import msgspec

from trackbed.cluster.resources.conditions import Condition

PATH = "/apis/trackbed.dev/v1alpha1/fabrics"
ROLLBACK = "trackbed.dev/rollback"
"""Annotation of a Fabric with the generation to roll back. The last good generation applies until a newer one."""
CONSISTENT = "Consistent"
"""Condition set by the controller: whether the nodes' reports show no fault between nodes."""


class FabricFindingEnd(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One end of a fault between nodes: a node, or its port on a rail."""

    node: str
    """Name of the node."""
    rail: int | msgspec.UnsetType = msgspec.UNSET
    """Rail of the port; absent if the fault is of the whole node."""


class FabricFinding(msgspec.Struct, frozen=True, rename="camel"):
    """A fault between nodes. Any of its ends may be the wrong one."""

    code: str
    """Code of the fault; `trackbed explain CODE` describes it."""
    verdict: Literal["fail", "warn"]
    """Whether it is broken, or works now and is likely to fail later."""
    message: str
    """The observed values at the ends, and the remedy."""
    ends: tuple[FabricFindingEnd, ...]
    """The first few ends."""
    end_count: int
    """Number of all ends."""


class FabricStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Progress of a Fabric in its cluster. Zero counts are written too, so that `kubectl get` prints them."""

    observed_generation: int = 0
    """Generation of the Fabric that this status describes."""
    nodes: int = 0
    """Number of nodes in the Fabric."""
    sound: int = 0
    """Nodes that are as planned and accept pods."""
    changing: int = 0
    """Nodes that are being drained, changed or rebooted."""
    waiting: int = 0
    """Nodes that must be changed but have not started."""
    failed: int = 0
    """Nodes that could not be changed; they accept no pods."""
    absent: int = 0
    """Nodes that are not in the cluster."""
    offered: int | msgspec.UnsetType = msgspec.UNSET
    """Nodes that offer a resource for each of their rails; absent if the stack has no such resources."""
    good_generation: int = 0
    """The last generation for which all nodes were sound."""
    conditions: tuple[Condition, ...] = ()
    """Conditions Ready, Progressing, Accepted and Consistent; StackApplied if the controller applies the stack."""
    findings: tuple[FabricFinding, ...] | msgspec.UnsetType = msgspec.UNSET
    """The first few faults between nodes; absent if no node has been compared."""
