"""Check of a plan that a machine receives: every value is one that a Fabric can give it.

A host writes the texts of its plan into files and commands that root runs. Whoever may write the plan (a RailNode, a
file) is therefore held to the same syntax and bounds as the author of a Fabric. Hosts run this module, so it uses the
standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from trackbed.fabric.bounds import (
    ARGUMENT_CHARACTERS,
    DSCP,
    GPUS,
    HOST_VFS,
    HUGE_PAGE_KIB,
    HUGE_PAGES,
    LEAST_PORT_GBPS,
    LINK_GBPS,
    MAX_RAILS,
    MTU,
    NODES_PER_UNIT,
    PATH_MTUS,
    POD_ADDRESSES,
    PRIORITY,
    RULE_PRIORITY,
    SPINE_LINKS,
    SPINES,
    TABLE_BASE,
    UNITS_PER_POD,
    VFS,
    Bounds,
)
from trackbed.fabric.model.ranges import BITS
from trackbed.fabric.plan.plan import (
    AddressPlan,
    CommonPlan,
    KubernetesPlan,
    NodePlan,
    PortPlan,
    RailPlan,
    RepositoryPlan,
    UplinksPlan,
)
from trackbed.fabric.text_syntax import (
    ABSOLUTE_PATH,
    CPUS,
    DNS_LABEL,
    EXTENDED_RESOURCE,
    HOST_NAME,
    IMAGE,
    KERNEL_ARGUMENT,
    LEAF_NAME,
    PACKAGE,
    PACKAGE_VERSION,
    PCI,
    PCI_ID,
    PORT_MAC,
    RDMA_NAME,
    REPOSITORY_URL,
    REPOSITORY_WORD,
    RESOURCE,
    explain_bad_interface_name,
)

_CHOICES: dict[str, Collection[object]] = {
    "link_type": ("ethernet", "infiniband"),
    "scheme": ("shared-subnet", "node-subnet", "point-to-point", "none"),
    "cross_rail": ("routed", "isolated"),
    "pod_mode": ("move", "sriov", "macvlan"),
    "rdma_mode": ("exclusive", "shared"),
    "path_mtu_bytes": PATH_MTUS,
    "nic_firmware": ("leave", "write", "reset"),
    "acs": ("enabled", "disabled", "leave"),
}
_NUMBERS = {
    "mtu_bytes": MTU,
    "vf_mtu_bytes": MTU,
    "rule_priority": RULE_PRIORITY,
    "nodes_per_unit": NODES_PER_UNIT,
    "vfs": VFS,
}
_UPLINKS_NUMBERS = {"spines": SPINES, "links": SPINE_LINKS}
_UPLINKS_OPTIONS = {"rate_gbps": LINK_GBPS, "units_per_pod": UNITS_PER_POD}
_QOS_NUMBERS = {"dscp": DSCP, "priority": PRIORITY, "cnp_dscp": DSCP}
_TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node", None)
_MAX_SLOTS = Bounds(0, 1 << 31)
_TABLE = Bounds(TABLE_BASE.low, TABLE_BASE.high + MAX_RAILS - 1)
_REPOSITORY_TEXTS = {
    "name": DNS_LABEL,
    "manager": re.compile("apt|dnf"),
    "url": REPOSITORY_URL,
    "key": ABSOLUTE_PATH,
    "suite": REPOSITORY_WORD,
}
_SHOWN_CHARACTERS = 60


def check_common(common: CommonPlan) -> None:
    """Check the settings of all nodes. Raises ValueError."""
    _check_text("fabric", common.fabric, DNS_LABEL)
    for field, choices in _CHOICES.items():
        _check(field, getattr(common, field), is_valid=getattr(common, field) in choices)
    _check_numbers(common, _NUMBERS)
    _check_numbers(common.qos, _QOS_NUMBERS)
    _check("rails", len(common.rails), is_valid=len(common.rails) <= MAX_RAILS)
    _check("vfs", common.vfs, is_valid=common.vfs * len(common.rails) <= HOST_VFS)
    for rail in common.rails:
        _check_rail(rail)
    for version, supernet in ((4, common.supernet4), (6, common.supernet6)):
        _check("supernet", supernet, is_valid=supernet is None or supernet.version == version)
    _check_kernel(common)
    _check_kubelet(common)
    for repository in common.repositories:
        _check_repository(repository)


def check_node(node: NodePlan) -> None:
    """Check what is a node's own. Raises ValueError."""
    _check_text("name", node.name, HOST_NAME)
    _check_numbers(node, {"slot": _MAX_SLOTS, "unit": _MAX_SLOTS})
    if node.nic is not None:
        _check_text("nic", node.nic, PCI_ID)
    for port in node.ports:
        _check_port(port)
    rails = {rail.rail for rail in node.common.rails}
    _check_distinct("rail", [port.rail for port in node.ports])
    _check_distinct("netdev", [port.netdev for port in node.ports])
    if not {port.rail for port in node.ports} <= rails:
        raise ValueError(f"node {node.name!r} has a port on a rail that the fabric does not have")


def check_kubernetes(kubernetes: KubernetesPlan) -> None:
    """Check the settings for stacks. Raises ValueError."""
    _check_text("namespace", kubernetes.namespace, DNS_LABEL)
    _check("ipam", kubernetes.ipam, is_valid=kubernetes.ipam in {"nv-ipam", "whereabouts"})
    _check("driver", kubernetes.driver, is_valid=kubernetes.driver in {"host", "container"})
    _check("management", kubernetes.management, is_valid=kubernetes.management in {None, "calico", "cilium"})
    _check("pkey", kubernetes.pkey, is_valid=kubernetes.pkey is None or 0 < kubernetes.pkey <= 0xFFFF)  # noqa: PLR2004 - 16 bits
    for component, version in kubernetes.versions:
        _check_text("versions", component, PACKAGE)
        _check_text("versions", version, PACKAGE_VERSION)
    if kubernetes.agent_image is not None:
        _check_text("agentImage", kubernetes.agent_image, IMAGE)
    _check_text("gpuResource", kubernetes.gpu_resource, EXTENDED_RESOURCE)


def check_uplinks(uplinks: UplinksPlan) -> None:
    """Check the links between leaves and spines. Raises ValueError."""
    _check_numbers(uplinks, _UPLINKS_NUMBERS)
    for field, bounds in _UPLINKS_OPTIONS.items():
        number = getattr(uplinks, field)
        _check(field, number, is_valid=number is None or _is_within(number, bounds))


def check_rate(rate_gbps: float | None) -> None:
    """Check the rate of the ports. Raises ValueError."""
    _check("rateGbps", rate_gbps, is_valid=rate_gbps is None or LEAST_PORT_GBPS <= rate_gbps <= LINK_GBPS.high)


def _check_rail(rail: RailPlan) -> None:
    _check("rail", rail.rail, is_valid=0 <= rail.rail < MAX_RAILS)
    _check_interface_name(rail.netdev)
    _check_interface_name(rail.pod_netdev)
    _check_text("rdma", rail.rdma, RDMA_NAME)
    _check_text("resource", rail.resource, RESOURCE)
    _check_text("network", rail.network, DNS_LABEL)
    _check_numbers(rail, {"table": _TABLE})
    for version, rail_range in ((4, rail.v4), (6, rail.v6)):
        _check("range", rail_range, is_valid=rail_range is None or rail_range.version == version)


def _check_kernel(common: CommonPlan) -> None:
    if common.kernel is None:
        return
    for kib, count in common.kernel.hugepages:
        _check("hugepages", (kib, count), is_valid=kib in HUGE_PAGE_KIB.values() and _is_within(count, HUGE_PAGES))
    _check_cpus(common.kernel.isolated_cpus)
    for argument in common.kernel.arguments:
        _check_text("arguments", argument, KERNEL_ARGUMENT)
    characters = sum(len(argument) + 1 for argument in common.kernel.arguments)
    _check("length of arguments", characters, is_valid=characters <= ARGUMENT_CHARACTERS)


def _check_kubelet(common: CommonPlan) -> None:
    if common.kubelet is not None:
        policy = common.kubelet.topology_manager
        _check("topology_manager", policy, is_valid=policy in _TOPOLOGY_POLICIES)
        _check_cpus(common.kubelet.reserved_cpus)


def _check_repository(repository: RepositoryPlan) -> None:
    for field, pattern in _REPOSITORY_TEXTS.items():
        _check_text(field, getattr(repository, field), pattern)
    for component in repository.components:
        _check_text("components", component, REPOSITORY_WORD)
    for package, version in repository.install:
        _check_text("install", package, PACKAGE)
        _check_text("install", version, PACKAGE_VERSION)


def _check_port(port: PortPlan) -> None:
    _check_interface_name(port.netdev)
    if port.kernel_name is not None:
        _check_interface_name(port.kernel_name)
    _check_text("leaf", port.leaf, LEAF_NAME)
    if port.pci is not None:
        _check_text("pci", port.pci, PCI)
    if port.mac is not None:
        _check_text("mac", port.mac, PORT_MAC)
    for gpu in port.gpus:
        _check("gpus", gpu, is_valid=0 <= gpu < GPUS.high)
    for version, address in ((4, port.v4), (6, port.v6)):
        if address is not None:
            _check_address(address, version)


def _check_address(address: AddressPlan, version: int) -> None:
    _check(f"ipv{version}", str(address), is_valid=address.version == version)
    highest = 1 << BITS[version]
    _check("gateway", address.gateway, is_valid=address.gateway < highest)
    _check("podsFirst", address.pods_first, is_valid=address.pods_first + address.pods_count <= highest)
    _check_numbers(address, {"pods_count": POD_ADDRESSES})


def _check_cpus(cpus: str | None) -> None:
    if cpus is not None:
        _check_text("cpus", cpus, CPUS)
        _check("length of cpus", len(cpus), is_valid=len(cpus) <= ARGUMENT_CHARACTERS)


def _check_interface_name(name: str) -> None:
    if reason := explain_bad_interface_name(name):
        raise ValueError(reason[1])


def _check_text(field: str, text: str, pattern: re.Pattern[str]) -> None:
    _check(field, text, is_valid=pattern.fullmatch(text) is not None)


def _check_numbers(values: Any, bounds_by_field: dict[str, Bounds]) -> None:  # noqa: ANN401 - any part of a plan
    for field, bounds in bounds_by_field.items():
        _check(field, getattr(values, field), is_valid=_is_within(getattr(values, field), bounds))


def _check_distinct(field: str, values: Collection[object]) -> None:
    if len(set(values)) != len(values):
        raise ValueError(f"two ports have one {field}")


def _is_within(number: int, bounds: Bounds) -> bool:
    return bounds.low <= number <= bounds.high


def _check(field: str, value: object, *, is_valid: bool) -> None:
    if not is_valid:
        raise ValueError(f"{field} is {repr(value)[:_SHOWN_CHARACTERS]}, which no Fabric gives it")
