"""The Fabric document: the network of a cluster in one file."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, field_validator

from trackbed.fabric.bounds import LEAST_PORT_GBPS, LINK_GBPS, MTU, NODES_PER_UNIT
from trackbed.fabric.model.addressing import Addressing
from trackbed.fabric.model.bios import BiosSpec, FirmwareSpec
from trackbed.fabric.model.cluster import OtherRanges, PodsSpec
from trackbed.fabric.model.host import KernelSpec, KubeletSpec, NamesSpec, QosSpec, RdmaSpec, RoutingSpec, VfsSpec
from trackbed.fabric.model.kubernetes import KubernetesSpec
from trackbed.fabric.model.model import DnsLabel, FabricModel, make_error
from trackbed.fabric.model.name_template import KEEP, render_name
from trackbed.fabric.model.nodes import MAX_NODES, NodeGroup, estimate_count
from trackbed.fabric.model.packages import RepositorySpec
from trackbed.fabric.model.rails import Rails
from trackbed.fabric.model.rollout import RolloutSpec
from trackbed.fabric.model.uplinks import UplinksSpec

API_VERSION = "trackbed.dev/v1alpha1"


class Metadata(FabricModel):
    """Name of the fabric.

    Example:
        name: train
    """

    name: DnsLabel
    """Name of the fabric, a DNS label."""


class FabricSpec(FabricModel):
    """The specification of a Fabric.

    Example:
        linkType: ethernet
        nodes:
          - hosts: gpu-[0-63]
        rails: 8
        nodesPerUnit: 32
        uplinks: {spines: 16, links: 2}
        addressing:
          scheme: shared-subnet
          ipv4: 10.0.0.0/13
        mtu: 9000
        rate: 400
        routing: {crossRail: isolated}
        qos: {dscp: 24}
        vfs: {count: 8}
        rdma: {namespaceMode: exclusive}
        bios: {sriov: enabled}
        repositories:
          - name: doca
            manager: apt
            url: https://linux.mellanox.com/public/repo/doca/2.10.0/ubuntu22.04/x86_64/
            key: /etc/apt/keyrings/doca.asc
            install: {doca-ofed: 2.10.0}
        firmware: {parameters: write}
        kernel: {arguments: [pci=realloc]}
        kubelet: {topologyManager: single-numa-node}
        pods: {mode: sriov}
        kubernetes: {namespace: training}
        rollout: {maxUnavailable: 10%}
        names: {netdev: "gpu{rail}"}
        otherRanges:
          nodes: [192.168.10.0/24]
    """

    link_type: Literal["ethernet", "infiniband"] = "ethernet"
    """Link layer of the rails."""
    nodes: tuple[NodeGroup, ...] = Field(min_length=1)
    """Groups of hosts with the same hardware."""
    rails: Rails
    """Number of rails, or a list of them."""
    nodes_per_unit: int = Field(default=32, ge=NODES_PER_UNIT.low, le=NODES_PER_UNIT.high)
    """Hosts in a scalable unit (one set of leaves). 128 at most in layout spectrum-x-2tier."""
    uplinks: UplinksSpec | None = None
    """Links between leaves and spines. Default: one for each host of a leaf, each to a spine of its own."""
    addressing: Addressing
    """Addressing scheme and ranges."""
    mtu: int | None = Field(default=None, ge=MTU.low, le=MTU.high)
    """MTU of the ports in bytes. Default: 9000 on Ethernet, 2044 (IPoIB datagram mode) on InfiniBand."""
    rate: float | None = Field(default=None, ge=LEAST_PORT_GBPS, le=LINK_GBPS.high)
    """Rate of the ports in Gb/s, which `trackbed prove` expects. Default: what a port negotiates."""
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
    repositories: tuple[RepositorySpec, ...] = ()
    """Packages that hosts install, as DOCA-OFED and gdrcopy."""
    firmware: FirmwareSpec = FirmwareSpec()
    """Firmware of the NICs."""
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

    @field_validator("nodes", mode="before")
    @classmethod
    def _check_total(cls, value: object) -> object:
        """Refuse too many hosts before the first range is expanded; a range that is malformed is reported by itself."""
        groups = value if isinstance(value, list | tuple) else ()
        texts = [group.get("hosts") for group in groups if isinstance(group, Mapping)]
        counts = [estimate_count(text) for text in texts if isinstance(text, str)]
        total = sum(count for count in counts if count <= MAX_NODES)
        if total > MAX_NODES:
            raise make_error("too-many-nodes", f"the groups name {total} hosts, a Fabric has at most {MAX_NODES}")
        return value

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


def choose_netdev(spec: FabricSpec, rail: int) -> str:
    """Return the interface name of a rail's port on hosts that rename it."""
    template = NamesSpec().netdev if spec.names.netdev == KEEP else spec.names.netdev
    return spec.rails[rail].name or render_name(template, rail)


def choose_pod_netdev(spec: FabricSpec, rail: int) -> str:
    """Return the name of a rail's interface in pods."""
    return choose_netdev(spec, rail) if spec.names.pod is None else render_name(spec.names.pod, rail)


class Fabric(FabricModel):
    """A Fabric document.

    Example:
        apiVersion: trackbed.dev/v1alpha1
        kind: Fabric
        metadata:
          name: train
        spec:
          nodes:
            - hosts: gpu-[0-63]
          rails: 8
          addressing:
            scheme: shared-subnet
            ipv4: 10.0.0.0/13
    """

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

    Example:
        apiVersion: trackbed.dev/v1alpha1
        kind: FabricLock
        fabric: train
        nodes:
          gpu-0: 0
          gpu-1: 1
    """

    api_version: Literal["trackbed.dev/v1alpha1"]
    """Version of this format."""
    kind: Literal["FabricLock"]
    """Kind of document."""
    fabric: DnsLabel
    """Name of the Fabric."""
    nodes: dict[str, int]
    """Slot of each node: unit * nodesPerUnit + position in the unit."""
