"""Ranges of the rails in a Fabric's `addressing` and `rails`, and the addresses that lie in them."""

from collections import Counter
from typing import Any

from trackbed.fabric.importers.inference.site import RailSite
from trackbed.fabric.importers.interface import StaticAddress
from trackbed.fabric.model.ranges import BITS, V6, Range
from trackbed.fabric.plan.rail_ranges import IPV6_SUBNET_PREFIX

Document = dict[str, Any]


def list_addresses(site: RailSite, ip_version: int) -> list[tuple[int, StaticAddress]]:
    """Return (rail, address) of every port."""
    addresses = (
        (rail, site.find_address(host, rail, ip_version)) for host, ports in site.ports.items() for rail in ports
    )
    return [(rail, address) for rail, address in addresses if address is not None]


def find_usual_prefix(site: RailSite, ip_version: int) -> int:
    """Return the prefix length that most addresses have."""
    return Counter(address.prefix for _, address in list_addresses(site, ip_version)).most_common(1)[0][0]


def add_ranges(site: RailSite, document: Document, known_version: int | None = None) -> Document:
    """Return `document` with the ranges of the rails: a supernet if it gives the same addresses, else each range.

    IP version `known_version` is skipped, since its ranges follow from the layout.
    """
    addressing = dict(document["addressing"])
    rails: list[Document] = [dict(rail) for rail in document.get("rails") or [{}] * site.rail_count]
    for ip_version, rail_ranges in site.ranges.items():
        if ip_version == known_version:
            continue
        supernet = _build_supernet_fields(site, ip_version, shared=addressing["scheme"] == "shared-subnet")
        if supernet:
            addressing |= supernet
            continue
        addressing[f"ipv{ip_version}"] = str(site.supernets[ip_version])
        for rail, rail_range in enumerate(rail_ranges):
            rails[rail] = {f"ipv{ip_version}": str(rail_range)} | rails[rail]
    return {"rails": rails if any(rails) else str(site.rail_count), "addressing": addressing}


def _build_supernet_fields(site: RailSite, ip_version: int, *, shared: bool) -> Document | None:
    """Return the fields for a supernet whose equal parts are the rails' ranges; None if there is no such supernet.

    The prefix length of the parts is included unless it is the default.
    """
    rail_ranges, key = site.ranges[ip_version], f"ipv{ip_version}"
    prefix, base = rail_ranges[0].prefix, rail_ranges[0].base
    size = 1 << (BITS[ip_version] - prefix)
    if any(rail_range != Range(ip_version, base + rail * size, prefix) for rail, rail_range in enumerate(rail_ranges)):
        return None
    supernet = site.supernets[ip_version]
    smallest = Range(ip_version, base, prefix - (len(rail_ranges) - 1).bit_length())
    if supernet.base != base:
        supernet = smallest
    if base & (supernet.size - 1):
        return None
    default = supernet.prefix + (len(rail_ranges) - 1).bit_length()
    if shared and ip_version == V6:
        default = max(IPV6_SUBNET_PREFIX, default)
    return {key: str(supernet)} | ({} if prefix == default else {f"{key}RailPrefix": str(prefix)})
