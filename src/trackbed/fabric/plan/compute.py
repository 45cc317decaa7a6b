"""Computation of a plan from a Fabric and the slots of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from trackbed.fabric.model.addressing import SharedSubnet
from trackbed.fabric.model.fabric import Fabric, FabricSpec
from trackbed.fabric.model.nodes import NodeGroup, PortSelector
from trackbed.fabric.model.problems import Problem, SpecError
from trackbed.fabric.model.ranges import Range
from trackbed.fabric.plan.capacity import check_capacity, check_gateway, check_other_ranges
from trackbed.fabric.plan.collector import pause_collector
from trackbed.fabric.plan.lock import assign_slots
from trackbed.fabric.plan.plan import (
    AddressPlan,
    CommonPlan,
    KernelPlan,
    KubeletPlan,
    KubernetesPlan,
    NodePlan,
    Plan,
    PortPlan,
    QosPlan,
    RailPlan,
)
from trackbed.fabric.plan.rail_ranges import compute_rail_ranges, find_supernet
from trackbed.fabric.plan.schemes import SCHEMES
from trackbed.fabric.plan.schemes.layout import RangeLayout
from trackbed.fabric.plan.schemes.shared_subnet import find_gateway

ComputeAddress = Callable[[int], AddressPlan]


@pause_collector
def compute_plan(fabric: Fabric, lock: Mapping[str, int]) -> Plan:
    """Compute the plan of a Fabric.

    `lock` maps nodes to slots; other nodes get free slots. Raises SpecError with all problems, without places (see
    `LoadedFabric.locate`).
    """
    spec = fabric.spec
    slots, problems = assign_slots(spec, lock)
    ranges = {version: compute_rail_ranges(spec, version, problems) for version in (4, 6)}
    layouts = {version: _build_rail_layouts(spec, ranges[version]) for version in (4, 6)}
    for version in (4, 6):
        problems += _check_ranges(spec, ranges[version], layouts[version], slots)
    if errors := [problem for problem in problems if problem.severity == "error"]:
        raise SpecError(errors)
    common = _build_common(fabric, ranges, len(slots))
    nodes = tuple(sorted(_iter_nodes(spec, common, slots, layouts), key=lambda node: node.slot))
    return Plan(common, nodes, _build_kubernetes(spec), tuple(problems))


def build_layouts(spec: FabricSpec, version: int) -> list[tuple[Range | None, RangeLayout | None]]:
    """Return the range of each rail in one IP version, and its layout."""
    ranges = compute_rail_ranges(spec, version, [])
    return list(zip(ranges, _build_rail_layouts(spec, ranges), strict=True))


def _build_rail_layouts(spec: FabricSpec, ranges: list[Range | None]) -> list[RangeLayout | None]:
    if spec.addressing.scheme == "none":
        return [None] * len(ranges)
    build_layout = SCHEMES[spec.addressing.scheme].build_layout
    return [
        build_layout(spec.addressing, entry, rail_range, spec.nodes_per_unit) if rail_range else None
        for entry, rail_range in zip(spec.rails, ranges, strict=True)
    ]


def _check_ranges(
    spec: FabricSpec, ranges: list[Range | None], layouts: list[RangeLayout | None], slots: Mapping[str, int]
) -> Iterator[Problem]:
    highest = max(slots.values(), default=0)
    for rail, (rail_range, layout) in enumerate(zip(ranges, layouts, strict=True)):
        if rail_range is None or layout is None:
            continue
        problem = _check_gateway(spec, rail_range, rail) or check_capacity(
            rail_range, rail, layout, highest + 1, len(slots)
        )
        if problem:
            yield problem
            continue
        low, high = layout.compute_address(min(slots.values(), default=0)), layout.compute_address(highest)
        last = max(high.gateway, high.address, high.pods_first + high.pods_count - 1)
        yield from check_other_ranges(spec, rail_range, rail, (low.subnet.base, last))


def _check_gateway(spec: FabricSpec, rail_range: Range, rail: int) -> Problem | None:
    if not isinstance(spec.addressing, SharedSubnet):
        return None
    address = find_gateway(spec.addressing, spec.rails[rail], rail_range)
    return check_gateway(rail_range, rail, address) if address else None


def _build_common(fabric: Fabric, ranges: dict[int, list[Range | None]], nodes: int) -> CommonPlan:
    spec = fabric.spec
    supernets = {version: find_supernet(spec, version, ranges[version]) for version in (4, 6)}
    return CommonPlan(
        fabric=fabric.metadata.name,
        link_type=spec.link_type,
        scheme=spec.addressing.scheme,
        mtu_bytes=spec.mtu_bytes,
        rails=tuple(_build_rail(spec, rail, ranges) for rail in range(len(spec.rails))),
        supernet4=supernets[4],
        supernet6=supernets[6],
        cross_rail=spec.routing.cross_rail or ("routed" if _has_gateways(spec) else "isolated"),
        rule_priority=spec.routing.rule_priority,
        nodes=nodes,
        nodes_per_unit=spec.nodes_per_unit,
        pod_mode=spec.pod_mode,
        rdma_mode=spec.rdma.namespace_mode or ("shared" if spec.shares_ports else "exclusive"),
        path_mtu_bytes=spec.rdma.path_mtu,
        vfs=spec.vfs.count,
        vf_mtu_bytes=spec.vfs.mtu or spec.mtu_bytes,
        vf_trust=spec.vfs.trust,
        vf_spoof_check=spec.vfs.spoof_check,
        qos=QosPlan(spec.qos.dscp, spec.qos.priority, spec.qos.cnp_dscp, spec.qos.pfc, spec.qos.ecn),
        kernel=_build_kernel(spec),
        kubelet=_build_kubelet(spec),
    )


_KIB = {"2M": 2 << 10, "1G": 1 << 20}


def _build_kernel(spec: FabricSpec) -> KernelPlan | None:
    kernel = spec.kernel
    iommu = kernel.iommu == "passthrough" or (kernel.iommu == "auto" and bool(spec.vfs.count))
    pages = tuple((_KIB[entry.size], entry.count) for entry in kernel.hugepages)
    if not (iommu or pages or kernel.isolated_cpus or kernel.arguments):
        return None
    return KernelPlan(iommu, pages, kernel.isolated_cpus, kernel.arguments)


def _build_kubelet(spec: FabricSpec) -> KubeletPlan | None:
    kubelet = spec.kubelet
    if not (kubelet.topology_manager or kubelet.reserved_cpus):
        return None
    return KubeletPlan(kubelet.topology_manager, kubelet.reserved_cpus)


def _build_kubernetes(spec: FabricSpec) -> KubernetesPlan:
    kubernetes = spec.kubernetes
    versions = tuple(sorted(kubernetes.versions.items()))
    return KubernetesPlan(
        kubernetes.namespace, kubernetes.ipam, kubernetes.driver, kubernetes.management, kubernetes.pkey, versions
    )


def _has_gateways(spec: FabricSpec) -> bool:
    if isinstance(spec.addressing, SharedSubnet):
        return spec.addressing.gateway != "none" or all(rail.gateway or rail.gateway6 for rail in spec.rails)
    return spec.addressing.scheme != "none"


def _build_rail(spec: FabricSpec, rail: int, ranges: dict[int, list[Range | None]]) -> RailPlan:
    return RailPlan(
        rail=rail,
        netdev=_choose_name(spec, rail),
        rdma=spec.names.rdma.format(rail=rail, number=rail + 1, unit=0),
        resource=spec.names.resource.format(rail=rail, number=rail + 1, unit=0),
        network=spec.names.network.format(rail=rail, number=rail + 1, unit=0),
        table=spec.routing.table_base + rail,
        v4=ranges[4][rail],
        v6=ranges[6][rail],
        pod_netdev=_choose_pod_name(spec, rail),
    )


def _choose_pod_name(spec: FabricSpec, rail: int) -> str:
    if spec.names.pod is None:
        return _choose_name(spec, rail)
    return spec.names.pod.format(rail=rail, number=rail + 1, unit=0)


def _choose_name(spec: FabricSpec, rail: int) -> str:
    template = "rail{rail}" if spec.names.netdev == "keep" else spec.names.netdev
    return spec.rails[rail].name or template.format(rail=rail, number=rail + 1, unit=0)


def _iter_nodes(
    spec: FabricSpec, common: CommonPlan, slots: Mapping[str, int], layouts: dict[int, list[RangeLayout | None]]
) -> Iterator[NodePlan]:
    factories = [_build_port_factory(spec, common.rails[rail].netdev, rail, layouts) for rail in range(len(spec.rails))]
    for group in spec.nodes:
        gpus = _assign_gpus(group, len(spec.rails))
        for name in group.list_names():
            slot = slots[name]
            arguments = zip(factories, _select_ports(group, name, spec), gpus, strict=True)
            ports = tuple(
                build_port(slot, selector, rail_gpus)
                for build_port, selector, rail_gpus in arguments
                if selector is not _ABSENT
            )
            yield NodePlan(name, slot, slot // spec.nodes_per_unit, ports, common, group.nic)


_ABSENT = "absent"
"""Marks a rail on which a host has no port; None is a port that is already named by names.netdev."""


def _select_ports(group: NodeGroup, name: str, spec: FabricSpec) -> list[PortSelector | str | None]:
    if group.ports is None and name not in group.host_ports:
        return [None] * len(spec.rails)
    return [selector or _ABSENT for selector in group.select_ports(name, len(spec.rails))]


def _build_port_factory(
    spec: FabricSpec, netdev: str, rail: int, layouts: dict[int, list[RangeLayout | None]]
) -> Callable[[int, PortSelector | str | None, tuple[int, ...]], PortPlan]:
    """Return a function that builds the PortPlan of (slot, selector, gpus) on one rail: the innermost loop."""
    compute_v4, compute_v6 = (_get_function(layouts[version][rail]) for version in (4, 6))
    leaves: dict[int, str] = {}
    keep, template, per_unit = spec.names.netdev == "keep", spec.names.leaf, spec.nodes_per_unit

    def build_port(slot: int, selector: PortSelector | str | None, gpus: tuple[int, ...]) -> PortPlan:
        unit = slot // per_unit
        leaf = leaves.get(unit) or leaves.setdefault(unit, template.format(unit=unit, rail=rail, number=rail + 1))
        v4, v6 = compute_v4(slot) if compute_v4 else None, compute_v6(slot) if compute_v6 else None
        if selector is None or isinstance(selector, str):
            return PortPlan._make((rail, netdev, None, None, None, gpus, leaf, v4, v6))
        by_name_only = not (selector.pci or selector.mac)
        name = selector.netdev if selector.netdev and (keep or by_name_only) else netdev
        return PortPlan._make((rail, name, selector.netdev, selector.pci, selector.mac, gpus, leaf, v4, v6))

    return build_port


def _get_function(layout: RangeLayout | None) -> ComputeAddress | None:
    return layout.compute_address if layout else None


def _assign_gpus(group: NodeGroup, rails: int) -> list[tuple[int, ...]]:
    """Return the GPUs of each rail; a rail without port has none."""
    rails_with_port = group.list_rails(rails)
    by_rail: list[tuple[int, ...]] = [()] * rails
    for rail, gpus in zip(
        rails_with_port, _divide_gpus(group.gpus or len(rails_with_port), len(rails_with_port)), strict=True
    ):
        by_rail[rail] = gpus
    return by_rail


def _divide_gpus(gpus: int, rails: int) -> list[tuple[int, ...]]:
    """Return the GPUs of each port: consecutive GPUs if a port serves several, the same GPU for its several ports."""
    if gpus >= rails:
        per_rail = gpus // rails
        return [tuple(range(rail * per_rail, (rail + 1) * per_rail)) for rail in range(rails)]
    return [(rail * gpus // rails,) for rail in range(rails)]
