"""The Fabric document of a site: the pieces of `spec` beside the addressing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trackbed.fabric.importers.imported import HostProblem, fold_hosts
from trackbed.fabric.importers.netplan.grouping import find_usual_mtu
from trackbed.fabric.model.check import RDMA_OVERHEAD_BYTES
from trackbed.fabric.model.fabric import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from trackbed.fabric.importers.netplan.interfaces import Interface
    from trackbed.fabric.importers.netplan.site import NetplanSite

Document = dict[str, Any]
Names = tuple[str | None, ...]

MAX_OTHER_RANGES = 8
"""More subnets than this are not worth a line each; they are left out."""


def build_document(
    name: str, site: NetplanSite, shape: Document, hosts: Sequence[str], macs: Mapping[int, str]
) -> Document:
    """The whole document; `shape` comes from `schemes`, `macs` says which MAC address counts for which interface."""
    spec: Document = {"rails": shape["rails"]}
    if "nodesPerUnit" in shape:
        spec["nodesPerUnit"] = shape["nodesPerUnit"]
    spec["addressing"] = shape["addressing"]
    spec |= _mtu(site)
    if _isolated(site, shape):
        spec["routing"] = {"crossRail": "isolated"}
    if shape["addressing"].get("podAddresses") == "0":
        spec["pods"] = {"mode": "move"}
    spec["names"] = {"netdev": "keep"}
    if 0 < len(site.other_subnets) <= MAX_OTHER_RANGES:
        spec["otherRanges"] = {"nodes": [str(other) for other in site.other_subnets]}
    spec["nodes"] = [_group(site, names, members, macs) for names, members in _alike(site, hosts).items()]
    return {"apiVersion": API_VERSION, "kind": "Fabric", "metadata": {"name": name}, "spec": spec}


def _mtu(site: NetplanSite) -> Document:
    """The usual MTU; and the largest RDMA path MTU that it carries, where that is not the default."""
    mtu = find_usual_mtu(port for own in site.ports.values() for port in own.values())
    if mtu is None:
        return {}
    fits = [size for size in (256, 512, 1024, 2048, 4096) if size + RDMA_OVERHEAD_BYTES <= mtu]
    return {"mtu": str(mtu)} | ({"rdma": {"pathMtu": str(fits[-1])}} if fits and fits[-1] < 4096 else {})  # noqa: PLR2004 - the default


def iter_mtu_problems(site: NetplanSite) -> Iterator[HostProblem]:
    """Ports whose MTU is not the usual one, or which have none."""
    usual = find_usual_mtu(port for own in site.ports.values() for port in own.values())
    if usual is None:
        first = next(port for own in site.ports.values() for port in own.values())
        message = "no port has an MTU in these files, so hosts run with 1500; the Fabric plans 9000"
        yield HostProblem("no-mtu", message, first.host, first.addresses[0].place)
        return
    for host, own in site.ports.items():
        for rail, port in own.items():
            if port.mtu_bytes != usual:
                has = f"has MTU {port.mtu_bytes}" if port.mtu_bytes else "has no MTU"
                message = f"{host} rail {rail} ({port.name}) {has}, the other ports have {usual}; {usual} is planned"
                yield HostProblem("odd-mtu", message, host, port.mtu_place or port.addresses[0].place)


def _isolated(site: NetplanSite, shape: Document) -> bool:
    """Whether ports have gateways, but no route that leads from a rail to another."""
    scheme = shape["addressing"]["scheme"]
    if site.rail_count < 2 or (scheme == "shared-subnet" and shape["addressing"].get("gateway") == "none"):  # noqa: PLR2004 - one rail reaches itself
        return False
    hops = [hop for own in site.ports.values() for port in own.values() for hop in port.routes if hop.via]
    wide = {(hop.to.version, hop.to.prefix) for hop in hops}
    narrowest = {version: min(cut.prefix for cut in cuts) for version, cuts in site.ranges.items()}
    return bool(hops) and not any(version in narrowest and prefix < narrowest[version] for version, prefix in wide)


def _alike(site: NetplanSite, hosts: Iterable[str]) -> dict[Names, list[str]]:
    """Hosts grouped by the names of their ports; one that lacks a port joins a group that it does not contradict."""
    names = {host: _names(site, host) for host in hosts}
    groups: dict[Names, list[str]] = {}
    for host in sorted(names, key=lambda host: names[host].count(None)):
        mine = names[host]
        fitting = (g for g in groups if all(m in {None, theirs} for m, theirs in zip(mine, g, strict=True)))
        groups.setdefault(next(fitting, mine), []).append(host)
    order = {host: position for position, host in enumerate(names)}
    return {key: sorted(group, key=order.__getitem__) for key, group in groups.items()}


def _names(site: NetplanSite, host: str) -> Names:
    own = site.ports[host]
    return tuple((own[rail].name or None) if rail in own else None for rail in range(site.rail_count))


def _group(site: NetplanSite, names: Names, hosts: list[str], macs: Mapping[int, str]) -> Document:
    group: Document = {"hosts": fold_hosts(hosts)}
    if any(names):
        group["ports"] = list(names)
    own = {host: _own(site.ports[host], names, macs) for host in hosts}
    selected = {host: ports for host, ports in own.items() if not any(names) or ports != list(names)}
    return group | ({"hostPorts": selected} if selected else {})


def _own(ports: Mapping[int, Interface], names: Names, macs: Mapping[int, str]) -> list[str | None]:
    """How to recognise each port of one host: by MAC address where known, else by name."""
    return [
        (macs.get(id(ports[rail])) or ports[rail].name or None) if rail in ports else None for rail in range(len(names))
    ]
