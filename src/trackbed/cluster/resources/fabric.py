"""The status of a Fabric as a custom resource; its `spec` is that of `fabric.model.fabric`."""

from __future__ import annotations

import msgspec

from trackbed.cluster.resources.conditions import Condition

PATH = "/apis/trackbed.dev/v1alpha1/fabrics"


class FabricStatus(msgspec.Struct, frozen=True, rename="camel"):
    """How far a Fabric has come in its cluster; counts of 0 are written too, so that `kubectl get` prints them."""

    observed_generation: int = 0
    """The generation of the Fabric that all of this is about."""
    nodes: int = 0
    """Nodes the Fabric names."""
    sound: int = 0
    """Nodes that are as planned and take pods."""
    changing: int = 0
    """Nodes that are being drained, changed or rebooted."""
    waiting: int = 0
    """Nodes that must change and have not begun."""
    failed: int = 0
    """Nodes that did not get there; they take no pods."""
    absent: int = 0
    """Nodes that the cluster does not have."""
    offered: int | msgspec.UnsetType = msgspec.UNSET
    """Nodes that offer pods the resource of each of their rails; left out where the stack has no resource for each."""
    good_generation: int = 0
    """The last generation with which all nodes were sound."""
    conditions: tuple[Condition, ...] = ()
    """Ready, Progressing, Accepted; StackApplied where the controller applies the stack."""
