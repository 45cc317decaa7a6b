"""The Fabric document: the network of a cluster in one file.

apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes: [{hosts: "gpu-[0-63]"}]
  rails: 8
  addressing: {scheme: shared-subnet, ipv4: 10.0.0.0/13}
"""

from typing import Literal

from pydantic import Field

from trackbed.fabric.model.addressing import Addressing
from trackbed.fabric.model.bios import BiosSpec
from trackbed.fabric.model.cluster import OtherRanges, PodsSpec
from trackbed.fabric.model.host import KernelSpec, KubeletSpec, NamesSpec, QosSpec, RdmaSpec, RoutingSpec, VfsSpec
from trackbed.fabric.model.kubernetes import KubernetesSpec
from trackbed.fabric.model.model import DnsLabel, FabricModel
from trackbed.fabric.model.nodes import NodeGroup
from trackbed.fabric.model.rails import Rails
from trackbed.fabric.model.rollout import RolloutSpec

API_VERSION = "trackbed.dev/v1alpha1"


class Metadata(FabricModel):
    """Name of the fabric."""

    name: DnsLabel
    """Name of the fabric, a DNS label."""


class FabricSpec(FabricModel):
    """The specification of a Fabric."""

    link_type: Literal["ethernet", "infiniband"] = "ethernet"
    """Link layer of the rails."""
    nodes: tuple[NodeGroup, ...] = Field(min_length=1)
    """Groups of hosts with the same hardware."""
    rails: Rails
    """Number of rails, or a list of them."""
    nodes_per_unit: int = Field(default=32, ge=1, le=4096)
    """Hosts in a scalable unit (one set of leaves). 128 at most in layout spectrum-x-2tier."""
    addressing: Addressing
    """Addressing scheme and ranges."""
    mtu: int | None = Field(default=None, ge=1280, le=65535)
    """MTU of the ports in bytes. Default: 9000 on Ethernet, 2044 (IPoIB datagram mode) on InfiniBand."""
    routing: RoutingSpec = RoutingSpec()
    """Source routing."""
    qos: QosSpec = QosSpec()
    """Traffic classes."""
    vfs: VfsSpec = VfsSpec()
    """Virtual functions."""
    rdma: RdmaSpec = RdmaSpec()
    """RDMA core."""
    bios: BiosSpec = BiosSpec()
    """Firmware setup of the servers."""
    kernel: KernelSpec = KernelSpec()
    """Kernel arguments."""
    kubelet: KubeletSpec = KubeletSpec()
    """Placement of pods on a node."""
    pods: PodsSpec = PodsSpec()
    """How pods get rails."""
    kubernetes: KubernetesSpec = KubernetesSpec()
    """Settings for stacks on Kubernetes."""
    rollout: RolloutSpec = RolloutSpec()
    """How a change is rolled out to the nodes of a cluster."""
    names: NamesSpec = NamesSpec()
    """Names of interfaces, devices, resources, switches."""
    other_ranges: OtherRanges = OtherRanges()
    """Other ranges in use on these hosts."""

    @property
    def mtu_bytes(self) -> int:
        """MTU of the ports, with the default applied."""
        return self.mtu or (9000 if self.link_type == "ethernet" else 2044)

    @property
    def shares_ports(self) -> bool:
        """Whether pods share ports and their RDMA devices; VFs have their own devices."""
        return self.pod_mode == "macvlan" and not self.vfs.count

    @property
    def pod_mode(self) -> str:
        """How pods get a port, with the default applied."""
        if self.pods.mode is not None:
            return self.pods.mode
        if self.addressing.scheme == "point-to-point":
            return "move"
        return "sriov" if self.vfs.count else "macvlan"


class Fabric(FabricModel):
    """A Fabric document."""

    api_version: Literal["trackbed.dev/v1alpha1"]
    """Version of this format."""
    kind: Literal["Fabric"]
    """Kind of document."""
    metadata: Metadata
    """Name."""
    spec: FabricSpec
    """The specification."""


class Lock(FabricModel):
    """The lock document: the slot of each node, so that later changes never renumber a node.

    A node that leaves the Fabric keeps its slot here until its line is deleted by hand.
    """

    api_version: Literal["trackbed.dev/v1alpha1"]
    """Version of this format."""
    kind: Literal["FabricLock"]
    """Kind of document."""
    fabric: DnsLabel
    """Name of the Fabric."""
    nodes: dict[str, int]
    """Slot of each node: unit * nodesPerUnit + position in the unit."""
