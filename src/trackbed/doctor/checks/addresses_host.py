"""Step addresses, checks of the host's files: link speed, neighbour tables, Service ranges that overlap a rail."""

import re
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from trackbed.doctor.catalogue import judge
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.model.ranges import V4, V6
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.steps.limits import count_neighbours

_SPEED = "/sys/class/net/{netdev}/speed"
_STATISTICS = {V4: "/proc/net/stat/arp_cache", V6: "/proc/net/stat/ndisc_cache"}
_TABLE_SIZE = "/proc/sys/net/ipv{version}/neigh/default/gc_thresh3"
_API_SERVER = "/etc/kubernetes/manifests/kube-apiserver.yaml"
_KUBELET = "/var/lib/kubelet/config.yaml"
_SERVICE_RANGES = re.compile(r"--service-cluster-ip-range=([0-9A-Fa-f:./,]+)")
_CLUSTER_DNS = re.compile(r"^clusterDNS:\s*\n((?:[ ]*-[^\n]*\n?)+)", re.MULTILINE)

FULL = 0.7
"""Usage of a neighbour table above which new entries may fail, because the kernel frees stale ones late."""

READS = Wanted(
    files=(
        _SPEED,
        *_STATISTICS.values(),
        *(_TABLE_SIZE.format(version=version) for version in _STATISTICS),
        _API_SERVER,
        _KUBELET,
    )
)


def check(view: NodeView) -> Iterator[Finding]:
    """Check each port's speed against the node's fastest, then the host as a whole."""
    if view.host is not None:
        yield from check_speeds(view, view.host)
        yield from check_neighbour_tables(view, view.host)
        yield from check_service_ranges(view, view.host)


def check_speeds(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Compare the speeds of the node's rails, since the plan has no speed.

    Without carrier the kernel reports -1 or no speed; such ports are skipped.
    """
    speeds = [(port, host.read_number(_SPEED.format(netdev=port.netdev))) for port in view.iter_ports()]
    known = [(port, speed) for port, speed in speeds if speed is not None and speed > 0]
    best = max((speed for _, speed in known), default=0)
    for port, speed in known if len(known) > 1 else ():
        evidence = f"{port.netdev}: {speed} Mbit/s, fastest rail of {view.node.name}: {best} Mbit/s"
        yield judge("addr-speed-wrong", view.node, port, ok=speed == best, evidence=evidence)


def check_neighbour_tables(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that the neighbour tables have room for twice the planned neighbours and are not nearly full."""
    overflows, is_checked = [], False
    for version, path in _STATISTICS.items():
        size, planned = host.read_number(_TABLE_SIZE.format(version=version)), count_neighbours(view.node, version)
        entries = _parse_entries(host.read_text(path) or "")
        if size is None or not planned:
            continue
        is_checked = True
        if size < 2 * planned or (entries or 0) >= FULL * size:
            overflows.append(
                f"IPv{version}: {entries or 0} neighbours, the plan brings {planned}, gc_thresh3 is {size}"
            )
    if is_checked:
        evidence = "; ".join(overflows)
        yield judge("addr-neighbour-table-overflow", view.node, None, ok=not overflows, evidence=evidence)


def _parse_entries(statistics: str) -> int | None:
    """Return the number of entries: the first column, hexadecimal, the same in each CPU's line.

    Source: neigh_stat_seq_show in net/core/neighbour.c.
    """
    rows = [line.split() for line in statistics.splitlines()[1:]]
    return max((int(row[0], 16) for row in rows if row), default=None)


def check_service_ranges(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that no Service lies on a rail.

    A control plane node has the Service range. Other nodes have the address of the cluster's DNS, which is a Service.
    """
    services = [
        *_find_networks(host, _API_SERVER, _SERVICE_RANGES, r"[0-9A-Fa-f:.]+/\d+"),
        *_find_networks(host, _KUBELET, _CLUSTER_DNS, r"[0-9A-Fa-f:.]+"),
    ]
    rails = [ip_network(str(rail_range)) for rail_range in view.list_rail_ranges()]
    inside = [
        str(service)
        for service in services
        if any(service.version == rail.version and service.overlaps(rail) for rail in rails)
    ]
    evidence = f"Services at {', '.join(inside)} lie on a rail" if inside else ""
    if services:
        yield judge("addr-service-cidr-overlap", view.node, None, ok=not inside, evidence=evidence)


def _find_networks(
    host: Snapshot, path: str, block: re.Pattern[str], pattern: str
) -> Iterator[IPv4Network | IPv6Network]:
    """Yield the networks in the matching blocks of a file.

    Link-local addresses are left out: they belong to a resolver on the node itself (NodeLocal DNSCache).
    """
    for section in block.findall(host.read_text(path) or ""):
        for address in re.findall(pattern, section):
            try:
                network = ip_network(address, strict=False)
            except ValueError:
                continue
            if not ip_address(network.network_address).is_link_local:
                yield network
