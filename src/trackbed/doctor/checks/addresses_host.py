"""Checks of step addresses that concern the host: link speed, neighbour tables, Service ranges on a rail."""

import re
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView, get_ip_version
from trackbed.fabric.model.ranges import V4, V6
from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.steps.limits import count_neighbours
from trackbed.kernel.netlink.addresses import FAMILY
from trackbed.kernel.netlink.neighbour_tables import NeighbourTable

_SPEED = "/sys/class/net/{netdev}/speed"
_STATISTICS = {V4: "/proc/net/stat/arp_cache", V6: "/proc/net/stat/ndisc_cache"}
_TABLE_SIZE = "/proc/sys/net/ipv{version}/neigh/default/gc_thresh3"
_API_SERVER = "/etc/kubernetes/manifests/kube-apiserver.yaml"
_KUBELET = "/var/lib/kubelet/config.yaml"
_SERVICE_RANGES = re.compile(r"--service-cluster-ip-range=([0-9A-Fa-f:./,]+)")
_CLUSTER_DNS = re.compile(r"^clusterDNS:\s*\n((?:[ ]*-[^\n]*\n?)+)", re.MULTILINE)

NEARLY_FULL_SHARE = 0.7
"""Share of a neighbour table in use above which new entries may fail, because the kernel frees stale ones late."""

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
    """Check the neighbour tables: the kernel's, or those of the host's snapshot."""
    yield from check_neighbour_tables(view, view.host)


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check each port's speed against the node's fastest, then the host as a whole."""
    yield from check_speeds(view, host)
    yield from check_service_ranges(view, host)


def check_speeds(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Compare the speeds of the node's rails, because the plan has no speed.

    Without carrier the kernel reports -1 or no speed; such ports are skipped.
    """
    speeds = [(port, host.read_number(_SPEED.format(netdev=port.netdev))) for port in view.iter_ports()]
    known = [(port, speed) for port, speed in speeds if speed is not None and speed > 0]
    best = max((speed for _, speed in known), default=0)
    for port, speed in known if len(known) > 1 else ():
        evidence = f"{port.netdev}: {speed} Mbit/s, fastest rail of {view.node.name}: {best} Mbit/s"
        yield build_finding("addr-speed-wrong", view.node, port, ok=speed == best, evidence=evidence)


def check_neighbour_tables(view: NodeView, host: Snapshot | None) -> Iterator[Finding]:
    """Check that the neighbour tables have room: now, and on a host also for twice the planned neighbours.

    A node without a snapshot shares its host's tables with others, so its own plan does not say what they must hold.
    """
    tables = view.neighbour_tables or (_list_recorded_tables(host) if host else ())
    tables = tuple(table for table in tables if count_neighbours(view.node, get_ip_version(table.family)))
    described = (_describe_shortage(view.node, table, shares_host=host is None) for table in tables)
    overflows = [text for text in described if text]
    if tables:
        evidence = "; ".join(overflows)
        yield build_finding("addr-neighbour-table-overflow", view.node, None, ok=not overflows, evidence=evidence)


def _describe_shortage(node: NodePlan, table: NeighbourTable, *, shares_host: bool) -> str:
    """Return why a table is too small; "" if it is not."""
    version = get_ip_version(table.family)
    planned = count_neighbours(node, version)
    holds = f"IPv{version}: {table.entries} neighbours"
    if table.overflows > 0:
        return f"{holds}, gc_thresh3 is {table.size}; {table.overflows} found no room during the probes"
    if shares_host:
        return ""
    if table.size < 2 * planned or table.entries >= NEARLY_FULL_SHARE * table.size:
        return f"{holds}, the plan brings {planned}, gc_thresh3 is {table.size}"
    return ""


def _list_recorded_tables(host: Snapshot) -> tuple[NeighbourTable, ...]:
    """Return the tables that a snapshot's files describe, both in size and in entries."""
    sizes = {version: host.read_number(_TABLE_SIZE.format(version=version)) for version in _STATISTICS}
    counts = {version: _parse_entry_count(host.read_text(path) or "") for version, path in _STATISTICS.items()}
    return tuple(
        NeighbourTable(FAMILY[version], count, size, 0)
        for version, count in counts.items()
        if count is not None and (size := sizes[version]) is not None
    )


def _parse_entry_count(statistics: str) -> int | None:
    """Return the number of entries in a neighbour table; None if the statistics are empty.

    It is the first column, in hexadecimal, with the same value on the line of each CPU (neigh_stat_seq_show in
    net/core/neighbour.c).
    """
    rows = [line.split() for line in statistics.splitlines()[1:]]
    return max((int(row[0], 16) for row in rows if row), default=None)


def check_service_ranges(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that no Service address is in a rail's range.

    The API server's manifest on a control plane node has the Service range. Kubelet's configuration on any node has
    the address of the cluster's DNS, which is a Service.
    """
    services = [
        *_iter_networks(host, _API_SERVER, _SERVICE_RANGES, r"[0-9A-Fa-f:.]+/\d+"),
        *_iter_networks(host, _KUBELET, _CLUSTER_DNS, r"[0-9A-Fa-f:.]+"),
    ]
    rails = [ip_network(str(rail_range)) for rail_range in view.list_rail_ranges()]
    inside = [
        str(service)
        for service in services
        if any(service.version == rail.version and service.overlaps(rail) for rail in rails)
    ]
    evidence = f"Services at {', '.join(inside)} lie on a rail" if inside else ""
    if services:
        yield build_finding("addr-service-cidr-overlap", view.node, None, ok=not inside, evidence=evidence)


def _iter_networks(
    host: Snapshot, path: str, section_pattern: re.Pattern[str], network_pattern: str
) -> Iterator[IPv4Network | IPv6Network]:
    """Yield the networks in the matching sections of a file.

    Link-local addresses are left out: they belong to a resolver on the node itself (NodeLocal DNSCache).
    """
    for section in section_pattern.findall(host.read_text(path) or ""):
        for address in re.findall(network_pattern, section):
            try:
                network = ip_network(address, strict=False)
            except ValueError:
                continue
            if not ip_address(network.network_address).is_link_local:
                yield network
