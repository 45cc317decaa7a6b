"""The plan is a function: Fabric and slots in, Plan out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.fabric.model.addressing import SharedSubnet
from trackbed.fabric.model.problems import Problem, SpecError
from trackbed.fabric.plan.capacity import check_capacity, check_gateway, check_other_ranges
from trackbed.fabric.plan.collector import without_collector
from trackbed.fabric.plan.lock import assign_slots
from trackbed.fabric.plan.plan import (
    Addressed,
    Common,
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from trackbed.fabric.model.fabric import Fabric, FabricSpec
    from trackbed.fabric.model.nodes import NodeGroup, PortSelector
    from trackbed.fabric.model.ranges import Range

    At = Callable[[int], Addressed]


@without_collector
def compute_plan(fabric: Fabric, lock: Mapping[str, int]) -> Plan:
    """Plan everything.

    `lock` maps nodes to slots; nodes that are not in it get free slots. Raises SpecError with every problem found
    (their places not filled in: `Loaded.located` does that).
    """
    spec = fabric.spec
    slots, problems = assign_slots(spec, lock)
    ranges = {version: compute_rail_ranges(spec, version, problems) for version in (4, 6)}
    layouts = {version: _layouts(spec, ranges[version]) for version in (4, 6)}
    problems += [p for v in (4, 6) for p in _arithmetic(spec, ranges[v], layouts[v], slots)]
    if errors := [problem for problem in problems if problem.severity == "error"]:
        raise SpecError(errors)
    common = _common(fabric, ranges, len(slots))
    nodes = tuple(sorted(_nodes(spec, common, slots, layouts), key=lambda node: node.slot))
    return Plan(common, nodes, _kubernetes(spec), tuple(problems))


def build_layouts(spec: FabricSpec, version: int) -> list[tuple[Range | None, RangeLayout | None]]:
    """The range of each rail in one IP version, and how it is dealt out."""
    ranges = compute_rail_ranges(spec, version, [])
    return list(zip(ranges, _layouts(spec, ranges), strict=True))


def _layouts(spec: FabricSpec, ranges: list[Range | None]) -> list[RangeLayout | None]:
    if spec.addressing.scheme == "none":
        return [None] * len(ranges)
    deal = SCHEMES[spec.addressing.scheme].build_layout
    return [
        deal(spec.addressing, entry, cut, spec.nodes_per_unit) if cut else None
        for entry, cut in zip(spec.rails, ranges, strict=True)
    ]


def _arithmetic(
    spec: FabricSpec, ranges: list[Range | None], layouts: list[RangeLayout | None], slots: Mapping[str, int]
) -> Iterator[Problem]:
    highest = max(slots.values(), default=0)
    for rail, (cut, layout) in enumerate(zip(ranges, layouts, strict=True)):
        if cut is None or layout is None:
            continue
        wrong = _gateway(spec, cut, rail) or check_capacity(cut, rail, layout, highest + 1, len(slots))
        if wrong:
            yield wrong
            continue
        low, high = layout.compute_address(min(slots.values(), default=0)), layout.compute_address(highest)
        last = max(high.gateway, high.address, high.pods_first + high.pods_count - 1)
        yield from check_other_ranges(spec, cut, rail, (low.subnet.base, last))


def _gateway(spec: FabricSpec, cut: Range, rail: int) -> Problem | None:
    if not isinstance(spec.addressing, SharedSubnet):
        return None
    address = find_gateway(spec.addressing, spec.rails[rail], cut)
    return check_gateway(cut, rail, address) if address else None


def _common(fabric: Fabric, ranges: dict[int, list[Range | None]], nodes: int) -> Common:
    spec = fabric.spec
    supernets = {version: find_supernet(spec, version, ranges[version]) for version in (4, 6)}
    return Common(
        fabric=fabric.metadata.name,
        link_type=spec.link_type,
        scheme=spec.addressing.scheme,
        mtu_bytes=spec.mtu_bytes,
        rails=tuple(_rail(spec, rail, ranges) for rail in range(len(spec.rails))),
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
        kernel=_kernel(spec),
        kubelet=_kubelet(spec),
    )


_KIB = {"2M": 2 << 10, "1G": 1 << 20}


def _kernel(spec: FabricSpec) -> KernelPlan | None:
    told = spec.kernel
    iommu = told.iommu == "passthrough" or (told.iommu == "auto" and bool(spec.vfs.count))
    pages = tuple((_KIB[one.size], one.count) for one in told.hugepages)
    if not (iommu or pages or told.isolated_cpus or told.arguments):
        return None
    return KernelPlan(iommu, pages, told.isolated_cpus, told.arguments)


def _kubelet(spec: FabricSpec) -> KubeletPlan | None:
    told = spec.kubelet
    if not (told.topology_manager or told.reserved_cpus):
        return None
    return KubeletPlan(told.topology_manager, told.reserved_cpus)


def _kubernetes(spec: FabricSpec) -> KubernetesPlan:
    told = spec.kubernetes
    versions = tuple(sorted(told.versions.items()))
    return KubernetesPlan(told.namespace, told.ipam, told.driver, told.management, told.pkey, versions)


def _has_gateways(spec: FabricSpec) -> bool:
    if isinstance(spec.addressing, SharedSubnet):
        return spec.addressing.gateway != "none" or all(rail.gateway or rail.gateway6 for rail in spec.rails)
    return spec.addressing.scheme != "none"


def _rail(spec: FabricSpec, rail: int, ranges: dict[int, list[Range | None]]) -> RailPlan:
    return RailPlan(
        rail=rail,
        netdev=_wanted_name(spec, rail),
        rdma=spec.names.rdma.format(rail=rail, number=rail + 1, unit=0),
        resource=spec.names.resource.format(rail=rail, number=rail + 1, unit=0),
        network=spec.names.network.format(rail=rail, number=rail + 1, unit=0),
        table=spec.routing.table_base + rail,
        v4=ranges[4][rail],
        v6=ranges[6][rail],
        pod_netdev=_pod_name(spec, rail),
    )


def _pod_name(spec: FabricSpec, rail: int) -> str:
    if spec.names.pod is None:
        return _wanted_name(spec, rail)
    return spec.names.pod.format(rail=rail, number=rail + 1, unit=0)


def _wanted_name(spec: FabricSpec, rail: int) -> str:
    template = "rail{rail}" if spec.names.netdev == "keep" else spec.names.netdev
    return spec.rails[rail].name or template.format(rail=rail, number=rail + 1, unit=0)


def _nodes(
    spec: FabricSpec, common: Common, slots: Mapping[str, int], layouts: dict[int, list[RangeLayout | None]]
) -> Iterator[NodePlan]:
    makers = [_port_maker(spec, common.rails[r].netdev, r, layouts) for r in range(len(spec.rails))]
    for group in spec.nodes:
        gpus = _gpus_by_rail(group, len(spec.rails))
        for name in group.list_names():
            slot = slots[name]
            selectors = zip(makers, _selectors(group, name, spec), gpus, strict=True)
            ports = tuple(make(slot, chosen, mine) for make, chosen, mine in selectors if chosen is not _ABSENT)
            yield NodePlan(name, slot, slot // spec.nodes_per_unit, ports, common, group.nic)


_ABSENT = "absent"
"""Stands for a rail that a host has no port on; None means a port already named by names.netdev."""


def _selectors(group: NodeGroup, name: str, spec: FabricSpec) -> list[PortSelector | str | None]:
    if group.ports is None and name not in group.host_ports:
        return [None] * len(spec.rails)
    return [selector or _ABSENT for selector in group.select_ports(name, len(spec.rails))]


def _port_maker(
    spec: FabricSpec, netdev: str, rail: int, layouts: dict[int, list[RangeLayout | None]]
) -> Callable[[int, PortSelector | str | None, tuple[int, ...]], PortPlan]:
    """A function that makes the PortPlan of (slot, selector, gpus) on one rail: the innermost loop of the plan."""
    at4, at6 = (_at(layouts[version][rail]) for version in (4, 6))
    leaves: dict[int, str] = {}
    keep, template, per_unit = spec.names.netdev == "keep", spec.names.leaf, spec.nodes_per_unit

    def make(slot: int, chosen: PortSelector | str | None, gpus: tuple[int, ...]) -> PortPlan:
        unit = slot // per_unit
        leaf = leaves.get(unit) or leaves.setdefault(unit, template.format(unit=unit, rail=rail, number=rail + 1))
        v4, v6 = at4(slot) if at4 else None, at6(slot) if at6 else None
        if chosen is None or isinstance(chosen, str):
            return PortPlan._make((rail, netdev, None, None, None, gpus, leaf, v4, v6))
        by_name_only = not (chosen.pci or chosen.mac)
        name = chosen.netdev if chosen.netdev and (keep or by_name_only) else netdev
        return PortPlan._make((rail, name, chosen.netdev, chosen.pci, chosen.mac, gpus, leaf, v4, v6))

    return make


def _at(layout: RangeLayout | None) -> At | None:
    return layout.compute_address if layout else None


def _gpus_by_rail(group: NodeGroup, rails: int) -> list[tuple[int, ...]]:
    """GPUs of each rail; a rail on which the group has no port has none."""
    here = group.list_rails(rails)
    found: list[tuple[int, ...]] = [()] * rails
    for rail, gpus in zip(here, _gpus(group.gpus or len(here), len(here)), strict=True):
        found[rail] = gpus
    return found


def _gpus(gpus: int, rails: int) -> list[tuple[int, ...]]:
    """GPUs of each of so many ports: consecutive ones where a port serves several, the same where a GPU has several."""
    if gpus >= rails:
        each = gpus // rails
        return [tuple(range(rail * each, (rail + 1) * each)) for rail in range(rails)]
    return [(rail * gpus // rails,) for rail in range(rails)]
