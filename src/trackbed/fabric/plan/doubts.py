"""Warnings of parts of a Fabric that defeat another, or that are hardly intended: the plan is made all the same."""

import re
from collections.abc import Iterator, Sequence

from trackbed.fabric.host_ranges import fold_hosts
from trackbed.fabric.model.addressing import PointToPoint
from trackbed.fabric.model.fabric import FabricSpec, choose_pod_netdev
from trackbed.fabric.model.host_terms import count_names
from trackbed.fabric.model.problems import Path, Problem
from trackbed.fabric.model.ranges import Range, parse_range
from trackbed.fabric.plan.placement import check_placement

_PRIVATE_RANGES = tuple(
    map(
        parse_range,
        (
            "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "198.18.0.0/15",
            "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
        ),
    )
)  # fmt: skip
"""IPv4 ranges that nobody has on the internet (RFC 6890)."""

_RDMA_DEVICE = re.compile(r"(mlx[45]_|bnxt_re|irdma|ionic_)\d+|(roce|rdma)p\d+s\d+\w*")
"""Names of RDMA devices: those of drivers, and by place (rdma_rename of rdma-core); no interface has them."""
_ETHERNET_VENDORS = {"14e4": "Broadcom", "8086": "Intel", "1dd8": "AMD", "1d0f": "Amazon"}
"""PCI vendors whose RDMA NICs have Ethernet ports only."""
_POD_INTERFACES = frozenset({"lo", "eth0"})
"""Interfaces that each pod has: the loopback, and the cluster's network (`ifName` of containerd's and CRI-O's CNI)."""


def check_doubts(spec: FabricSpec, ranges: Sequence[Range | None]) -> Iterator[Problem]:
    """Yield the warnings of a Fabric; `ranges` are the rails' IPv4 ranges.

    IPv6 ranges are not judged: sites use global ones of their own on rails.
    """
    yield from check_placement(spec)
    yield from _check_repeated_hosts(spec)
    yield from _check_ports(spec)
    yield from _check_vfs_without_address(spec)
    yield from _check_public_ranges(spec, ranges)
    yield from _check_pod_names(spec)


def _check_repeated_hosts(spec: FabricSpec) -> Iterator[Problem]:
    for index, group in enumerate(spec.nodes):
        if "," not in group.hosts:
            continue
        repeated = [name for name, count in count_names(group.hosts).items() if count > 1]
        if repeated:
            message = (
                f"{fold_hosts(repeated)} is named more than once in these hosts and counts once; take it out, or write "
                "the host that is meant"
            )
            yield _build_warning("repeated-host", message, ("spec", "nodes", index, "hosts"))


def _check_ports(spec: FabricSpec) -> Iterator[Problem]:
    for index, group in enumerate(spec.nodes):
        path: Path = ("spec", "nodes", index)
        netdevs = [port.netdev for port in group.ports or () if port and port.netdev]
        device = next(filter(_RDMA_DEVICE.fullmatch, netdevs), None)
        if device:
            message = f"{device} is the name of an RDMA device, a port has that of an interface; `rdma link` shows both"
            yield _build_warning("port-is-device", message, (*path, "ports"))
        vendor = _ETHERNET_VENDORS.get((group.nic or "").partition(":")[0].lower())
        if vendor and spec.link_type == "infiniband":
            message = f"{vendor}'s NICs have no InfiniBand ports: write linkType ethernet, or the nic that is meant"
            yield _build_warning("nic-without-infiniband", message, (*path, "nic"))


def _check_vfs_without_address(spec: FabricSpec) -> Iterator[Problem]:
    if not (isinstance(spec.addressing, PointToPoint) and spec.vfs.count):
        return
    count, path = spec.vfs.count, ("spec", "vfs", "count")
    if count > 1:
        message = (
            f"a /31 has one address for the host, so {count} VFs of a port cannot have one each; write scheme "
            "node-subnet, or vfs.count 0 to move the ports themselves (1 for stack spectrum-x)"
        )
        yield _build_warning("vfs-without-address", message, path)
    elif spec.kubernetes.stack != "spectrum-x":
        message = (
            "a /31 has one address for the host, and only stack spectrum-x gives it to a VF; write kubernetes.stack "
            "spectrum-x if that is meant, else vfs.count 0 to move the ports themselves"
        )
        yield _build_warning("vfs-without-address", message, path)


def _check_public_ranges(spec: FabricSpec, ranges: Sequence[Range | None]) -> Iterator[Problem]:
    public = {
        rail: rail_range
        for rail, rail_range in enumerate(ranges)
        if rail_range and not any(rail_range.base in block and rail_range.last in block for block in _PRIVATE_RANGES)
    }
    supernet: Range | None = getattr(spec.addressing, "ipv4", None)
    if supernet and any(spec.rails[rail].ipv4 is None for rail in public):
        yield _build_public_warning(supernet, ("spec", "addressing", "ipv4"))
    for rail, rail_range in public.items():
        if spec.rails[rail].ipv4:
            yield _build_public_warning(rail_range, ("spec", "rails", rail, "ipv4"))


def _check_pod_names(spec: FabricSpec) -> Iterator[Problem]:
    """Warn of a rail whose interface in pods would be that of the cluster's network."""
    names = spec.names
    rails = (rail for rail in range(len(spec.rails)) if choose_pod_netdev(spec, rail) in _POD_INTERFACES)
    for rail in rails:
        name = choose_pod_netdev(spec, rail)
        message = (
            f"rail {rail} is {name} in pods, where the cluster's network has that name, so no pod starts; write "
            "names.pod, for example rail{rail}"
        )
        yield _build_warning("pod-interface", message, ("spec", "names", "netdev" if names.pod is None else "pod"))


def _build_public_warning(public: Range, path: Path) -> Problem:
    message = (
        f"{public} has public addresses: unless they are yours, hosts and pods no longer reach their owners; write a "
        "part of 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or 100.64.0.0/10"
    )
    return _build_warning("public-range", message, path)


def _build_warning(code: str, message: str, path: Path) -> Problem:
    return Problem(code, message, path, severity="warning")
