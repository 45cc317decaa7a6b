"""The status of a Fabric as a custom resource; its `spec` is in `fabric.model.fabric`."""

import msgspec

from trackbed.cluster.resources.conditions import Condition

PATH = "/apis/trackbed.dev/v1alpha1/fabrics"


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
    """Conditions Ready, Progressing and Accepted; StackApplied if the controller applies the stack."""
