"""Everything computed from a Fabric: one Plan, its nodes, their ports.

    Plan
      common      what all nodes share: rails, MTU, routing, QoS, modes
      nodes       NodePlan, in order of slot
        ports     PortPlan, one for each rail the node has a port on
          v4, v6  Addressed: address, subnet, gateway, block for pods

All addresses are ints. A plan is a value: equal inputs give equal plans, nothing here reads a clock, a file or a host.
100,000 ports are planned in a few tenths of a second, hence named tuples: hosts have only the standard library, and no
other immutable class of it is as quick to make. In inner loops `_make` takes half the time of a call of the class.
"""

from __future__ import annotations

from typing import NamedTuple

from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import BITS, V4, Range, text


class Addressed(NamedTuple):
    """One port's addressing in one IP version; addresses are ints, 0 for no gateway and for no pod addresses."""

    version: int
    address: int
    prefix: int
    gateway: int
    pods_first: int
    pods_count: int

    @property
    def subnet(self) -> Range:
        """The subnet the address lies in."""
        bits = BITS[self.version] - self.prefix
        return Range(self.version, self.address >> bits << bits, self.prefix)

    def __str__(self) -> str:
        return f"{text(self.version, self.address)}/{self.prefix}"

    def with_address(self, address: int) -> Addressed:
        """The same addressing with another address, as a pod on this port gets it."""
        return Addressed(self.version, address, self.prefix, self.gateway, 0, 0)


class RailPlan(NamedTuple):
    """One rail: index, names, route table, address ranges."""

    rail: int
    netdev: str
    rdma: str
    resource: str
    network: str
    table: int
    v4: Range | None
    v6: Range | None
    pod_netdev: str
    """What a pod calls its interface."""


class QosPlan(NamedTuple):
    """Traffic classes (RFC 2474 code points, IEEE 802.1Q priorities)."""

    dscp: int
    priority: int
    cnp_dscp: int
    pfc: bool
    ecn: bool


class KernelPlan(NamedTuple):
    """What the kernel is started with: IOMMU in pass-through, huge pages as (size in KiB, count), arguments."""

    iommu: bool
    hugepages: tuple[tuple[int, int], ...] = ()
    isolated_cpus: str | None = None
    arguments: tuple[str, ...] = ()


class KubeletPlan(NamedTuple):
    """How kubelet places pods; None leaves kubelet's own."""

    topology_manager: str | None = None
    reserved_cpus: str | None = None


class Common(NamedTuple):
    """What all nodes of a fabric share."""

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
    """None where the Fabric asks nothing of the kernel's arguments."""
    kubelet: KubeletPlan | None = None
    """None where the Fabric asks nothing of kubelet."""
    narrowed: bool = False
    """Whether rails of the fabric are left out: the plan as one pod has it."""

    def supernet(self, version: int) -> Range | None:
        """The range that holds all rails of an IP version."""
        return self.supernet4 if version == V4 else self.supernet6


class PortPlan(NamedTuple):
    """One port: its rail, how to recognise it, the name it shall have, its leaf, its addresses."""

    rail: int
    netdev: str
    kernel_name: str | None
    pci: str | None
    mac: str | None
    gpus: tuple[int, ...]
    leaf: str
    v4: Addressed | None
    v6: Addressed | None

    @property
    def addressed(self) -> tuple[Addressed, ...]:
        """The addressing of each IP version that is planned."""
        return tuple(a for a in (self.v4, self.v6) if a is not None)


class NodePlan(NamedTuple):
    """One node: name, slot, scalable unit, ports in rail order (a rail without a port is left out)."""

    name: str
    slot: int
    unit: int
    ports: tuple[PortPlan, ...]
    common: Common
    nic: str | None = None
    """PCI vendor and device id of the ports, as 15b3:1021."""

    def port(self, rail: int) -> PortPlan | None:
        """The port on `rail`, if the node has one."""
        return next((port for port in self.ports if port.rail == rail), None)


class KubernetesPlan(NamedTuple):
    """What stacks are told about the cluster."""

    namespace: str
    ipam: str
    driver: str
    management: str | None
    pkey: int | None
    versions: tuple[tuple[str, str], ...]


class Plan(NamedTuple):
    """Everything computed from one Fabric."""

    common: Common
    nodes: tuple[NodePlan, ...]
    kubernetes: KubernetesPlan
    warnings: tuple[Problem, ...] = ()

    def node(self, name: str) -> NodePlan | None:
        """The plan of one node by name."""
        return next((node for node in self.nodes if node.name == name), None)
