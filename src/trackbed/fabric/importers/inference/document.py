"""The Fabric document of a site: the sections of `spec` other than addressing."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trackbed.fabric.host_ranges import fold_hosts
from trackbed.fabric.importers.inference.grouping import find_usual_mtu
from trackbed.fabric.importers.inference.routing import build_routing_fields
from trackbed.fabric.importers.inference.site import RailSite
from trackbed.fabric.importers.interface import Interface
from trackbed.fabric.importers.result import HostProblem
from trackbed.fabric.model.check import RDMA_OVERHEAD_BYTES
from trackbed.fabric.model.fabric import API_VERSION

Document = dict[str, Any]
Names = tuple[str | None, ...]

MAX_OTHER_RANGES = 8
"""With more subnets than this, otherRanges is left out."""


def build_document(
    fabric_name: str, site: RailSite, candidate: Document, hosts: Sequence[str], macs: Mapping[int, str]
) -> Document:
    """Build the document of a candidate of `schemes`; `macs` maps id(interface) to its MAC address."""
    spec: Document = {"linkType": "infiniband"} if find_link_type(site) == "infiniband" else {}
    spec["rails"] = candidate["rails"]
    if "nodesPerUnit" in candidate:
        spec["nodesPerUnit"] = candidate["nodesPerUnit"]
    spec["addressing"] = candidate["addressing"]
    spec |= _build_mtu_fields(site)
    isolated = {"crossRail": "isolated"} if _is_isolated(site, candidate) else {}
    if routing := isolated | build_routing_fields(site):
        spec["routing"] = routing
    if candidate["addressing"].get("podAddresses") == "0":
        spec["pods"] = {"mode": "move"}
    spec["names"] = {"netdev": "keep"}
    if 0 < len(site.other_subnets) <= MAX_OTHER_RANGES:
        spec["otherRanges"] = {"nodes": [str(subnet) for subnet in site.other_subnets]}
    spec["nodes"] = [
        _build_node_group(site, names, members, macs) for names, members in _group_hosts(site, hosts).items()
    ]
    return {"apiVersion": API_VERSION, "kind": "Fabric", "metadata": {"name": fabric_name}, "spec": spec}


def find_link_type(site: RailSite) -> str:
    """Return the link type that most ports have."""
    return Counter(port.link_type for ports in site.ports.values() for port in ports.values()).most_common(1)[0][0]


def iter_link_problems(site: RailSite) -> Iterator[HostProblem]:
    """Yield a problem for each port whose link type differs from the others."""
    usual = find_link_type(site)
    for host, ports in site.ports.items():
        for rail, port in ports.items():
            if port.link_type != usual:
                message = (
                    f"rail {rail} ({port.label}) is {port.link_type}, the other ports are {usual}; a Fabric has one "
                    "link type; import the others as a Fabric of their own"
                )
                yield HostProblem("mixed-links", message, host, port.place, "error")


def _build_mtu_fields(site: RailSite) -> Document:
    """Return the fields for the most common MTU, and for the RDMA path MTU that fits if it is not the default."""
    mtu = find_usual_mtu(port for ports in site.ports.values() for port in ports.values())
    if mtu is None:
        return {}
    if find_link_type(site) == "infiniband":
        return {"mtu": str(mtu)}
    path_mtus = [size for size in (256, 512, 1024, 2048, 4096) if size + RDMA_OVERHEAD_BYTES <= mtu]
    return {"mtu": str(mtu)} | ({"rdma": {"pathMtu": str(path_mtus[-1])}} if path_mtus and path_mtus[-1] < 4096 else {})  # noqa: PLR2004 - the default


def iter_mtu_problems(site: RailSite) -> Iterator[HostProblem]:
    """Yield a problem for each port whose MTU is missing or differs from the most common MTU."""
    usual = find_usual_mtu(port for ports in site.ports.values() for port in ports.values())
    if usual is None and find_link_type(site) == "infiniband":
        return
    if usual is None:
        first = next(port for ports in site.ports.values() for port in ports.values())
        message = "no port has an MTU in these files, so hosts run with 1500; the Fabric plans 9000"
        yield HostProblem("no-mtu", message, first.host, first.addresses[0].place)
        return
    for host, ports in site.ports.items():
        for rail, port in ports.items():
            if port.mtu_bytes != usual:
                mtu = f"has MTU {port.mtu_bytes}" if port.mtu_bytes else "has no MTU"
                message = f"{host} rail {rail} ({port.label}) {mtu}, the other ports have {usual}; {usual} is planned"
                yield HostProblem("odd-mtu", message, host, port.mtu_place or port.addresses[0].place)


def _is_isolated(site: RailSite, candidate: Document) -> bool:
    """Return whether ports have gateways, but no route from one rail to another."""
    scheme = candidate["addressing"]["scheme"]
    if site.rail_count < 2 or (scheme == "shared-subnet" and candidate["addressing"].get("gateway") == "none"):  # noqa: PLR2004 - one rail reaches itself
        return False
    routes = [route for ports in site.ports.values() for port in ports.values() for route in port.routes if route.via]
    destinations = {(route.to.version, route.to.prefix) for route in routes}
    narrowest = {
        version: min(rail_range.prefix for rail_range in rail_ranges) for version, rail_ranges in site.ranges.items()
    }
    return bool(routes) and not any(
        version in narrowest and prefix < narrowest[version] for version, prefix in destinations
    )


def _group_hosts(site: RailSite, hosts: Iterable[str]) -> dict[Names, list[str]]:
    """Group hosts by their port names; a host that lacks a port joins a group with the same other names."""
    names = {host: _list_port_names(site, host) for host in hosts}
    groups: dict[Names, list[str]] = {}
    for host in sorted(names, key=lambda host: names[host].count(None)):
        host_names = names[host]
        compatible = (
            group_names
            for group_names in groups
            if all(name in {None, group_name} for name, group_name in zip(host_names, group_names, strict=True))
        )
        groups.setdefault(next(compatible, host_names), []).append(host)
    order = {host: position for position, host in enumerate(names)}
    return {group_names: sorted(group, key=order.__getitem__) for group_names, group in groups.items()}


def _list_port_names(site: RailSite, host: str) -> Names:
    ports = site.ports[host]
    return tuple((ports[rail].name or None) if rail in ports else None for rail in range(site.rail_count))


def _build_node_group(site: RailSite, names: Names, hosts: list[str], macs: Mapping[int, str]) -> Document:
    group: Document = {"hosts": fold_hosts(hosts)}
    if any(names):
        group["ports"] = list(names)
    ports_by_host = {host: _select_ports(site.ports[host], names, macs) for host in hosts}
    selected = {host: ports for host, ports in ports_by_host.items() if not any(names) or ports != list(names)}
    return group | ({"hostPorts": selected} if selected else {})


def _select_ports(ports: Mapping[int, Interface], names: Names, macs: Mapping[int, str]) -> list[str | None]:
    """Return the selectors of a host's ports: the MAC address if known, else the name."""
    return [
        (macs.get(id(ports[rail])) or ports[rail].name or None) if rail in ports else None for rail in range(len(names))
    ]
