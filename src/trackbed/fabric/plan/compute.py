"""Computation of a plan from a Fabric and the slots of its nodes."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from trackbed.fabric.bounds import HUGE_PAGE_KIB
from trackbed.fabric.gpus import GPU_RESOURCE
from trackbed.fabric.model.addressing import NodeSubnet, PointToPoint, SharedSubnet
from trackbed.fabric.model.fabric import Fabric, FabricSpec, choose_netdev, choose_pod_netdev
from trackbed.fabric.model.name_template import KEEP, render_name
from trackbed.fabric.model.nodes import NodeGroup, PortSelector
from trackbed.fabric.model.problems import Problem, SpecError
from trackbed.fabric.model.ranges import Range
from trackbed.fabric.plan.capacity import (
    check_capacity,
    check_gateway,
    check_other_ranges,
    check_routed_ranges,
    check_slots,
)
from trackbed.fabric.plan.collector import pause_collector
from trackbed.fabric.plan.doubts import check_doubts
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
    RepositoryPlan,
    UplinksPlan,
    create_tuple,
)
from trackbed.fabric.plan.rail_ranges import check_supernet, compute_rail_ranges, find_supernet
from trackbed.fabric.plan.schemes import SCHEMES
from trackbed.fabric.plan.schemes.layout import RangeLayout
from trackbed.fabric.plan.schemes.shared_subnet import find_gateway

SRIOV_OPERATOR_STACKS = frozenset({"network-operator-sriov", "network-operator-ib-sriov", "sriov-operator"})
"""Stacks whose SR-IOV operator reboots a host until the kernel's command line names the RDMA namespace mode."""


@pause_collector
def compute_plan(fabric: Fabric, lock: Mapping[str, int]) -> Plan:
    """Compute the plan of a Fabric.

    `lock` maps nodes to slots; other nodes get free slots. Raises SpecError with all problems, without places (see
    `LoadedFabric.locate`).
    """
    spec = fabric.spec
    slots, problems = assign_slots(spec, lock)
    ranges = {ip_version: compute_rail_ranges(spec, ip_version, problems) for ip_version in (4, 6)}
    layouts = {ip_version: _build_rail_layouts(spec, ranges[ip_version]) for ip_version in (4, 6)}
    for ip_version in (4, 6):
        problems += _check_ranges(spec, ranges[ip_version], layouts[ip_version], slots)
        problems += check_supernet(spec, ip_version, ranges[ip_version])
        problems += _check_routed_ranges(spec, find_supernet(spec, ip_version, ranges[ip_version]), problems)
    problems += check_slots(spec, slots)
    problems += check_doubts(spec, ranges[4])
    if errors := [problem for problem in problems if problem.severity == "error"]:
        raise SpecError(errors)
    common = _build_common_plan(fabric, ranges, len(slots))
    nodes = tuple(sorted(_iter_nodes(spec, common, slots, layouts), key=lambda node: node.slot))
    gpu_resources = _find_gpu_resources(spec)
    kubernetes = _build_kubernetes_plan(spec, next(iter(gpu_resources.values()), GPU_RESOURCE))
    return Plan(common, nodes, kubernetes, tuple(problems), _build_uplinks_plan(spec), spec.rate, gpu_resources)


def build_layouts(spec: FabricSpec, ip_version: int) -> list[tuple[Range | None, RangeLayout | None]]:
    """Return the range of each rail in one IP version, and its layout."""
    ranges = compute_rail_ranges(spec, ip_version, [])
    return list(zip(ranges, _build_rail_layouts(spec, ranges), strict=True))


def _build_rail_layouts(spec: FabricSpec, ranges: list[Range | None]) -> list[RangeLayout | None]:
    if spec.addressing.scheme == "none":
        return [None] * len(ranges)
    return [
        _build_rail_layout(spec, rail, rail_range) if rail_range else None for rail, rail_range in enumerate(ranges)
    ]


def _build_rail_layout(spec: FabricSpec, rail: int, rail_range: Range) -> RangeLayout:
    build_layout = SCHEMES[spec.addressing.scheme].build_layout
    return build_layout(spec.addressing, spec.rails[rail], rail_range, spec.nodes_per_unit)


def _check_ranges(
    spec: FabricSpec, ranges: list[Range | None], layouts: list[RangeLayout | None], slots: Mapping[str, int]
) -> Iterator[Problem]:
    highest = max(slots.values(), default=0)
    for rail, (rail_range, layout) in enumerate(zip(ranges, layouts, strict=True)):
        if rail_range is None or layout is None:
            continue
        problem = _check_gateway(spec, rail_range, rail) or check_capacity(
            spec, rail, rail_range, partial(_build_rail_layout, spec, rail), slots
        )
        if problem:
            yield problem
            continue
        lowest = layout.compute_address(min(slots.values(), default=0)).subnet.base
        last, reach = (_find_last(layout.compute_address(slot)) for slot in (highest, layout.slots - 1))
        yield from check_other_ranges(spec, rail_range, rail, (lowest, last), reach)


def _find_last(address: AddressPlan) -> int:
    return max(address.gateway, address.address, address.pods_first + address.pods_count - 1)


def _check_routed_ranges(spec: FabricSpec, supernet: Range | None, problems: list[Problem]) -> Iterator[Problem]:
    """Yield other ranges that a host's route to all rails takes in, unless a problem names them already."""
    if supernet is None or _choose_cross_rail(spec) != "routed" or not _has_gateways(spec):
        return
    named = {problem.path for problem in problems}
    yield from (problem for problem in check_routed_ranges(spec, supernet) if problem.path not in named)


def _check_gateway(spec: FabricSpec, rail_range: Range, rail: int) -> Problem | None:
    if not isinstance(spec.addressing, SharedSubnet):
        return None
    address = find_gateway(spec.addressing, spec.rails[rail], rail_range)
    return check_gateway(rail_range, rail, address) if address else None


def _build_common_plan(fabric: Fabric, ranges: dict[int, list[Range | None]], nodes: int) -> CommonPlan:
    spec = fabric.spec
    supernets = {ip_version: find_supernet(spec, ip_version, ranges[ip_version]) for ip_version in (4, 6)}
    return CommonPlan(
        fabric=fabric.metadata.name,
        link_type=spec.link_type,
        scheme=spec.addressing.scheme,
        mtu_bytes=spec.mtu_bytes,
        rails=tuple(_build_rail_plan(spec, rail, ranges) for rail in range(len(spec.rails))),
        supernet4=supernets[4],
        supernet6=supernets[6],
        cross_rail=_choose_cross_rail(spec),
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
        kernel=_build_kernel_plan(spec),
        kubelet=_build_kubelet_plan(spec),
        repositories=_build_repository_plans(spec),
        nic_firmware=spec.firmware.parameters,
        acs=spec.bios.acs,
        rdma_mode_on_cmdline=spec.kubernetes.stack in SRIOV_OPERATOR_STACKS,
    )


def _build_kernel_plan(spec: FabricSpec) -> KernelPlan | None:
    kernel = spec.kernel
    iommu = kernel.iommu == "passthrough"
    huge_pages = tuple((HUGE_PAGE_KIB[pages.size], pages.count) for pages in kernel.hugepages)
    if not (iommu or huge_pages or kernel.isolated_cpus or kernel.arguments):
        return None
    return KernelPlan(iommu, huge_pages, kernel.isolated_cpus, kernel.arguments)


def _build_repository_plans(spec: FabricSpec) -> tuple[RepositoryPlan, ...]:
    return tuple(
        RepositoryPlan(
            repository.name,
            repository.manager,
            repository.url,
            repository.key,
            tuple(repository.install.items()),
            repository.suite,
            repository.components,
        )
        for repository in spec.repositories
    )


def _build_kubelet_plan(spec: FabricSpec) -> KubeletPlan | None:
    kubelet = spec.kubelet
    if not (kubelet.topology_manager or kubelet.reserved_cpus):
        return None
    return KubeletPlan(kubelet.topology_manager, kubelet.reserved_cpus)


def _build_kubernetes_plan(spec: FabricSpec, gpu_resource: str) -> KubernetesPlan:
    kubernetes = spec.kubernetes
    return KubernetesPlan(
        kubernetes.namespace,
        kubernetes.ipam,
        kubernetes.driver,
        kubernetes.management,
        kubernetes.pkey,
        versions=tuple(sorted(kubernetes.versions.items())),
        values=tuple(sorted(kubernetes.values.items())),
        agent_image=kubernetes.images.agent,
        gpu_resource=gpu_resource,
    )


def _find_gpu_resources(spec: FabricSpec) -> dict[str, str]:
    """Return the resource of each node's GPUs, where the Fabric or the catalogue of servers says it."""
    from trackbed.fabric.model.servers import load_servers  # noqa: PLC0415 - read on demand

    stated = spec.kubernetes.gpu_resource
    return {
        name: stated or load_servers()[group.server or ""].gpus.resource
        for group in spec.nodes
        if stated or group.server
        for name in group.list_names()
    }


def _build_uplinks_plan(spec: FabricSpec) -> UplinksPlan | None:
    uplinks = spec.uplinks
    if uplinks is None:
        return None
    return UplinksPlan(uplinks.count_spines(spec.nodes_per_unit), uplinks.links, uplinks.rate, uplinks.units_per_pod)


def _choose_cross_rail(spec: FabricSpec) -> str:
    return spec.routing.cross_rail or ("routed" if _has_gateways(spec) else "isolated")


def _has_gateways(spec: FabricSpec) -> bool:
    if isinstance(spec.addressing, SharedSubnet):
        return spec.addressing.gateway != "none" or all(rail.gateway or rail.gateway6 for rail in spec.rails)
    return isinstance(spec.addressing, NodeSubnet | PointToPoint)


def _build_rail_plan(spec: FabricSpec, rail: int, ranges: dict[int, list[Range | None]]) -> RailPlan:
    return RailPlan(
        rail=rail,
        netdev=choose_netdev(spec, rail),
        rdma=render_name(spec.names.rdma, rail),
        resource=render_name(spec.names.resource, rail),
        network=render_name(spec.names.network, rail),
        table=spec.routing.table_base + rail,
        v4=ranges[4][rail],
        v6=ranges[6][rail],
        pod_netdev=choose_pod_netdev(spec, rail),
    )


def _iter_nodes(
    spec: FabricSpec, common: CommonPlan, slots: Mapping[str, int], layouts: dict[int, list[RangeLayout | None]]
) -> Iterator[NodePlan]:
    factories = [_build_port_factory(spec, common.rails[rail].netdev, rail, layouts) for rail in range(len(spec.rails))]
    for group in spec.nodes:
        gpus = _assign_gpus(group, len(spec.rails))
        for name in group.list_names():
            slot = slots[name]
            unit = slot // spec.nodes_per_unit
            arguments = zip(factories, _select_ports(group, name, spec), gpus, strict=True)
            ports = tuple(
                build_port(slot, unit, selector, rail_gpus)
                for build_port, selector, rail_gpus in arguments
                if selector is not _ABSENT
            )
            yield NodePlan(name, slot, unit, ports, common, group.nic)


_ABSENT = "absent"
"""Selector on a rail where a host has no port; None selects a port that already has its name by names.netdev."""


def _select_ports(group: NodeGroup, host: str, spec: FabricSpec) -> list[PortSelector | str | None]:
    if group.ports is None and host not in group.host_ports:
        return [None] * len(spec.rails)
    return [selector or _ABSENT for selector in group.select_ports(host, len(spec.rails))]


def _build_port_factory(
    spec: FabricSpec, netdev: str, rail: int, layouts: dict[int, list[RangeLayout | None]]
) -> Callable[[int, int, PortSelector | str | None, tuple[int, ...]], PortPlan]:
    """Return a function that builds the PortPlan of (slot, unit, selector, gpus) on one rail: the innermost loop."""
    rail_layouts = (layouts[ip_version][rail] for ip_version in (4, 6))
    compute_v4, compute_v6 = (layout.compute_address if layout else None for layout in rail_layouts)
    leaves: dict[int, str] = {}
    keep, template = spec.names.netdev == KEEP, spec.names.leaf

    def build_port(slot: int, unit: int, selector: PortSelector | str | None, gpus: tuple[int, ...]) -> PortPlan:
        leaf = leaves.get(unit) or leaves.setdefault(unit, render_name(template, rail, unit))
        v4 = compute_v4(slot) if compute_v4 else None
        v6 = compute_v6(slot) if compute_v6 else None
        if selector is None or isinstance(selector, str):
            return create_tuple(PortPlan, (rail, netdev, None, None, None, gpus, leaf, v4, v6))
        by_name_only = not (selector.pci or selector.mac)
        name = selector.netdev if selector.netdev and (keep or by_name_only) else netdev
        return create_tuple(PortPlan, (rail, name, selector.netdev, selector.pci, selector.mac, gpus, leaf, v4, v6))

    return build_port


def _assign_gpus(group: NodeGroup, rails: int) -> list[tuple[int, ...]]:
    """Return the GPUs of each rail; a rail without a port has none."""
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
