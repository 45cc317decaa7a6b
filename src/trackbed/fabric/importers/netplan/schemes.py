"""Addressing that could have produced the addresses: `rails`, `addressing` and `nodesPerUnit` of a Fabric.

Every candidate is planned; the one whose plan differs least from the files is used.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any

from trackbed.fabric.importers.netplan.grouping import is_narrow
from trackbed.fabric.importers.netplan.interfaces import StaticAddress
from trackbed.fabric.importers.netplan.site import NetplanSite
from trackbed.fabric.model.addressing import SPECTRUM_X_RAIL_PREFIX, SPECTRUM_X_SUPERNET
from trackbed.fabric.model.ranges import BITS, V4, V6, Range, format_address
from trackbed.fabric.plan.rail_ranges import IPV6_SUBNET_PREFIX

UNIT_ADDRESSES = 256
USUAL_NODES_PER_UNIT = 32
USUAL_BLOCK = 16
MAX_BLOCK = 65536

Document = dict[str, Any]


def iter_candidates(site: NetplanSite) -> Iterator[Document]:
    """Yield parts of a Fabric's `spec`, the most likely first."""
    primary = V4 if V4 in site.ranges else V6
    prefix = Counter(address.prefix for _rail, address in _list_addresses(site, primary)).most_common(1)[0][0]
    if is_narrow(primary, prefix):
        yield from _iter_point_to_point(site)
    elif _is_shared(site, primary):
        yield _add_ranges(site, _build_shared_subnet(site, primary))
    else:
        yield _add_ranges(site, _build_node_subnet(site))


def _list_addresses(site: NetplanSite, version: int) -> list[tuple[int, StaticAddress]]:
    """Return (rail, address) of every port."""
    addresses = ((rail, site.find_address(host, rail, version)) for host, ports in site.ports.items() for rail in ports)
    return [(rail, address) for rail, address in addresses if address is not None]


def _iter_point_to_point(site: NetplanSite) -> Iterator[Document]:
    spectrum_x = [SPECTRUM_X_SUPERNET.get_subnet(rail, SPECTRUM_X_RAIL_PREFIX) for rail in range(8)]
    if list(site.ranges.get(V4, ())) == spectrum_x[: site.rail_count]:
        hosts = [
            (address.number - site.ranges[V4][rail].base) % UNIT_ADDRESSES // 2
            for rail, address in _list_addresses(site, V4)
        ]
        nodes_per_unit = max(USUAL_NODES_PER_UNIT, 1 << max(hosts).bit_length())
        addressing = {"scheme": "point-to-point", "layout": "spectrum-x-2tier"}
        yield _add_ranges(site, {"addressing": addressing}, known_version=V4) | {"nodesPerUnit": str(nodes_per_unit)}
    yield _add_ranges(site, {"addressing": {"scheme": "point-to-point"}})


def _is_shared(site: NetplanSite, version: int) -> bool:
    """Return whether the hosts of a rail share one subnet.

    A single host does if its port's subnet is the range of the rail.
    """
    for rail in range(site.rail_count):
        subnets = Counter(
            address.subnet for address_rail, address in _list_addresses(site, version) if address_rail == rail
        )
        if len(subnets) > 1:
            return subnets.most_common(1)[0][1] * 2 > subnets.total()
    return all(site.ranges[version][rail] == address.subnet for rail, address in _list_addresses(site, version))


def _build_node_subnet(site: NetplanSite) -> Document:
    addressing = {"scheme": "node-subnet"}
    for version in site.ranges:
        prefix = Counter(address.prefix for _, address in _list_addresses(site, version)).most_common(1)[0][0]
        addressing[f"ipv{version}NodePrefix"] = str(prefix)
    return {"addressing": addressing}


def _build_shared_subnet(site: NetplanSite, primary: int) -> Document:
    gateways = {version: _find_gateways(site, version) for version in site.ranges}
    addressing: Document = {"scheme": "shared-subnet"}
    rails: list[Document] = [{} for _ in range(site.rail_count)]
    names = {
        name
        for version, version_gateways in gateways.items()
        if (name := _name_gateways(site.ranges[version], version_gateways))
    }
    if len(names) == 1 and all(
        _name_gateways(site.ranges[version], version_gateways) for version, version_gateways in gateways.items()
    ):
        addressing |= {} if names == {"none"} else {"gateway": names.pop()}
    else:
        for version, version_gateways in gateways.items():
            for rail, gateway in enumerate(version_gateways):
                if gateway is not None:
                    rails[rail]["gateway" if version == V4 else "gateway6"] = format_address(version, gateway)
    block = _find_block(site, primary, gateways[primary])
    addressing |= {} if block == USUAL_BLOCK else {"podAddresses": str(block - 1)}
    return {"addressing": addressing, "rails": rails if any(rails) else None}


def _find_gateways(site: NetplanSite, version: int) -> list[int | None]:
    counts: list[Counter[int]] = [Counter() for _ in range(site.rail_count)]
    for host, ports in site.ports.items():
        for rail in ports:
            gateway = site.find_gateway(host, rail, version)
            if gateway is not None:
                counts[rail][gateway] += 1
    return [gateways.most_common(1)[0][0] if gateways else None for gateways in counts]


def _name_gateways(ranges: Sequence[Range], gateways: list[int | None]) -> str | None:
    """Return the Fabric's value for these gateways (none, first, last), if there is one."""
    if all(gateway is None for gateway in gateways):
        return "none"
    if gateways == [rail_range.base + 1 for rail_range in ranges]:
        return "first"
    last = [rail_range.last - (rail_range.version == V4) for rail_range in ranges]
    return "last" if gateways == last else None


def _find_block(site: NetplanSite, version: int, gateways: list[int | None]) -> int:
    """Return the largest block (1 + podAddresses) that starts at every port and contains no reserved address."""
    rail_ranges = site.ranges[version]
    offsets = [
        (address.number - rail_ranges[rail].base, rail)
        for rail, address in _list_addresses(site, version)
        if address.number in rail_ranges[rail]
    ]
    step = min(gcd(*(offset for offset, _ in offsets)), MAX_BLOCK)
    if len(site.ports) == 1 and step % USUAL_BLOCK == 0:
        step = USUAL_BLOCK
    for block in (candidate for candidate in range(step, 1, -1) if step % candidate == 0):
        if not any(
            offset // block in _list_reserved_blocks(rail_ranges[rail], gateways[rail], block)
            for offset, rail in offsets
        ):
            return block
    return 1


def _list_reserved_blocks(rail_range: Range, gateway: int | None, block: int) -> set[int]:
    return {0, (rail_range.last - rail_range.base) // block} | (
        {(gateway - rail_range.base) // block} if gateway is not None else set()
    )


def _add_ranges(site: NetplanSite, document: Document, known_version: int | None = None) -> Document:
    """Add the ranges of the rails: one supernet if it gives the same addresses, else one range per rail.

    Skip IP version `known_version`: its ranges follow from the layout.
    """
    addressing = dict(document["addressing"])
    rails: list[Document] = [dict(rail) for rail in document.get("rails") or [{}] * site.rail_count]
    for version, rail_ranges in site.ranges.items():
        if version == known_version:
            continue
        supernet = _build_supernet(site, version, shared=addressing["scheme"] == "shared-subnet")
        if supernet:
            addressing |= supernet
            continue
        addressing[f"ipv{version}"] = str(site.supernets[version])
        for rail, rail_range in enumerate(rail_ranges):
            rails[rail] = {f"ipv{version}": str(rail_range)} | rails[rail]
    return {"rails": rails if any(rails) else str(site.rail_count), "addressing": addressing}


def _build_supernet(site: NetplanSite, version: int, *, shared: bool) -> Document | None:
    """Return the supernet whose equal parts are the rails' ranges, and their length unless it is the default."""
    rail_ranges, key = site.ranges[version], f"ipv{version}"
    prefix, base = rail_ranges[0].prefix, rail_ranges[0].base
    size = 1 << (BITS[version] - prefix)
    if any(rail_range != Range(version, base + rail * size, prefix) for rail, rail_range in enumerate(rail_ranges)):
        return None
    supernet = site.supernets[version]
    smallest = Range(version, base, prefix - (len(rail_ranges) - 1).bit_length())
    if supernet.base != base:
        supernet = smallest
    if base & (supernet.size - 1):
        return None
    default = supernet.prefix + (len(rail_ranges) - 1).bit_length()
    if shared and version == V6:
        default = max(IPV6_SUBNET_PREFIX, default)
    return {key: str(supernet)} | ({} if prefix == default else {f"{key}RailPrefix": str(prefix)})
