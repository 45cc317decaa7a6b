"""The plan of a Fabric: its nodes and their ports.

    Plan
      common      settings of all nodes: rails, MTU, routing, QoS, modes
      nodes       NodePlan, in order of slot
        ports     PortPlan, one for each rail on which the node has a port
          v4, v6  AddressPlan: address, subnet, gateway, block for pods

All addresses are ints. A plan is a value: equal inputs give equal plans, nothing here reads a clock, a file or a host.
100,000 ports are planned in a few tenths of a second, hence named tuples: hosts have only the standard library, and it
has no other immutable class that is as fast to create.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from trackbed.fabric.gpus import GPU_RESOURCE
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import BITS, V4, Range, format_address

_ECT0 = 2
"""ECN-capable transport (0): the low two bits of the traffic class (RFC 3168)."""

create_tuple = tuple.__new__
"""`create_tuple(PortPlan, values)` takes half the time of `PortPlan(...)` and does not count the values."""


class AddressPlan(NamedTuple):
    """Addressing of a port in one IP version; addresses are ints, where 0 means no gateway or no pod addresses."""

    version: int
    address: int
    prefix: int
    gateway: int
    pods_first: int
    pods_count: int

    @property
    def subnet(self) -> Range:
        """The subnet of the address."""
        bits = BITS[self.version] - self.prefix
        return Range(self.version, self.address >> bits << bits, self.prefix)

    def __str__(self) -> str:
        return f"{format_address(self.version, self.address)}/{self.prefix}"

    def with_address(self, address: int) -> AddressPlan:
        """Return this addressing with the address of a pod on this port."""
        return AddressPlan(self.version, address, self.prefix, self.gateway, 0, 0)


class RailPlan(NamedTuple):
    """A rail: index, names, routing table, address ranges."""

    rail: int
    netdev: str
    rdma: str
    resource: str
    network: str
    table: int
    v4: Range | None
    v6: Range | None
    pod_netdev: str
    """Interface name in pods."""


class QosPlan(NamedTuple):
    """Traffic classes (RFC 2474 code points, IEEE 802.1Q priorities)."""

    dscp: int
    priority: int
    cnp_dscp: int
    pfc: bool
    ecn: bool

    @property
    def traffic_class(self) -> int:
        """Traffic class (IPv4: TOS) of RDMA packets: DSCP 26 with ECT(0), the ECN-capable transport, gives 106."""
        return self.dscp << 2 | (_ECT0 if self.ecn else 0)


class KernelPlan(NamedTuple):
    """Kernel command line: IOMMU in pass-through mode, huge pages as (size in KiB, count), arguments."""

    iommu: bool
    hugepages: tuple[tuple[int, int], ...] = ()
    isolated_cpus: str | None = None
    arguments: tuple[str, ...] = ()


class KubeletPlan(NamedTuple):
    """Placement of pods by kubelet; None leaves kubelet's own setting."""

    topology_manager: str | None = None
    reserved_cpus: str | None = None


class RepositoryPlan(NamedTuple):
    """A signed repository, and the (package, version) pairs that hosts install from it by apt or dnf."""

    name: str
    manager: str
    url: str
    key: str
    install: tuple[tuple[str, str], ...]
    suite: str = "./"
    components: tuple[str, ...] = ()


class CommonPlan(NamedTuple):
    """Settings of all nodes of a fabric."""

    fabric: str
    link_type: str
    scheme: str
    mtu_bytes: int
    rails: tuple[RailPlan, ...]
    supernet4: Range | None
    supernet6: Range | None
    cross_rail: str
    rule_priority: int
    nodes: int
    nodes_per_unit: int
    pod_mode: str
    rdma_mode: str
    path_mtu_bytes: int
    vfs: int
    vf_mtu_bytes: int
    vf_trust: bool
    vf_spoof_check: bool
    qos: QosPlan
    kernel: KernelPlan | None = None
    """None if the Fabric does not configure kernel arguments."""
    kubelet: KubeletPlan | None = None
    """None if the Fabric does not configure kubelet."""
    narrowed: bool = False
    """Whether rails of the fabric are left out, as in the plan of one pod."""
    repositories: tuple[RepositoryPlan, ...] = ()
    """Repositories from which hosts install packages."""
    nic_firmware: str = "leave"
    """Whether apply sets the NICs' firmware parameters: leave, write, or reset (set them and reset the NIC)."""
    acs: str = "leave"
    """Whether PCIe bridges between NIC and GPU isolate them: enabled, disabled or leave."""
    rdma_mode_on_cmdline: bool = False
    """Whether the kernel's command line names the RDMA namespace mode, wherever RDMA drivers are loaded from."""

    @property
    def has_addresses(self) -> bool:
        """Whether ports have addresses."""
        return self.scheme != "none"

    @property
    def has_shared_subnets(self) -> bool:
        """Whether each rail is one subnet, shared by all nodes."""
        return self.scheme == "shared-subnet"

    @property
    def is_routed(self) -> bool:
        """Whether leaves route within a rail, because each node has subnets of its own."""
        return self.scheme in {"node-subnet", "point-to-point"}

    def get_supernet(self, ip_version: int) -> Range | None:
        """Return the range that covers all rails in one IP version."""
        return self.supernet4 if ip_version == V4 else self.supernet6


class PortPlan(NamedTuple):
    """A port: its rail, selectors, intended name, leaf and addresses."""

    rail: int
    netdev: str
    kernel_name: str | None
    pci: str | None
    mac: str | None
    gpus: tuple[int, ...]
    leaf: str
    v4: AddressPlan | None
    v6: AddressPlan | None

    @property
    def addresses(self) -> tuple[AddressPlan, ...]:
        """The addressing of each planned IP version."""
        return tuple(address for address in (self.v4, self.v6) if address is not None)


class NodePlan(NamedTuple):
    """A node: name, slot, scalable unit, ports in rail order. Rails without a port are omitted."""

    name: str
    slot: int
    unit: int
    ports: tuple[PortPlan, ...]
    common: CommonPlan
    nic: str | None = None
    """PCI vendor and device id of the ports, as 15b3:1021."""

    def find_port(self, rail: int) -> PortPlan | None:
        """Return the port on `rail`, if the node has one."""
        return next((port for port in self.ports if port.rail == rail), None)

    def count_gpus(self) -> int:
        """Return the number of GPUs that the node's ports serve."""
        return len({gpu for port in self.ports for gpu in port.gpus})


class KubernetesPlan(NamedTuple):
    """Settings for stacks on Kubernetes."""

    namespace: str
    ipam: str
    driver: str
    management: str | None
    pkey: int | None
    versions: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Helm values of the user's own, by component."""
    agent_image: str | None = None
    """The user's image of the agent."""
    gpu_resource: str = GPU_RESOURCE
    """Extended resource by which pods ask for GPUs."""


class UplinksPlan(NamedTuple):
    """Links of each leaf to the spines of its rail and pod."""

    spines: int
    links: int = 1
    """Parallel links between a leaf and each spine."""
    rate_gbps: int | None = None
    """Rate of a link; None: that of the hosts' ports."""
    units_per_pod: int | None = None
    """Scalable units whose leaves share spines; None: all."""


class Plan(NamedTuple):
    """The plan of a Fabric."""

    common: CommonPlan
    nodes: tuple[NodePlan, ...]
    kubernetes: KubernetesPlan
    warnings: tuple[Problem, ...] = ()
    uplinks: UplinksPlan | None = None
    """None if the Fabric does not describe them. No host needs them, so no node's document has them."""
    rate_gbps: float | None = None
    """Rate of the ports; None: what they negotiate. No node's document has it."""
    gpu_resources: Mapping[str, str] = MappingProxyType({})
    """Node -> resource of its GPUs, where the Fabric or the catalogue says it. No node's document has it."""

    def get_gpu_resource(self, node: str) -> str:
        """Return the resource by which pods ask for a node's GPUs."""
        return self.gpu_resources.get(node, self.kubernetes.gpu_resource)

    def list_gpu_resources(self) -> tuple[str, ...]:
        """Return the resources of the nodes' GPUs, each once, in the order of the nodes."""
        return tuple(dict.fromkeys(self.get_gpu_resource(node.name) for node in self.nodes))

    def find_node(self, name: str) -> NodePlan | None:
        """Return the plan of a node by name."""
        return next((node for node in self.nodes if node.name == name), None)
