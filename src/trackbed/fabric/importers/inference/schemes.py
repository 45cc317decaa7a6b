"""Candidates for `rails`, `addressing` and `nodesPerUnit` of a Fabric that could have produced the addresses.

Every candidate is planned; the one whose plan differs least from the files is used.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any

from trackbed.fabric.importers.inference.grouping import is_narrow
from trackbed.fabric.importers.inference.rail_fields import add_ranges, find_usual_prefix, list_addresses
from trackbed.fabric.importers.inference.site import RailSite
from trackbed.fabric.model.addressing import SPECTRUM_X_RAIL_PREFIX, SPECTRUM_X_SUPERNET
from trackbed.fabric.model.ranges import BITS, V4, V6, Range, format_address
from trackbed.fabric.plan.rail_ranges import IPV6_SUBNET_PREFIX

UNIT_ADDRESSES = 256
USUAL_NODES_PER_UNIT = 32
USUAL_BLOCK = 16
MAX_BLOCK = 65536

Document = dict[str, Any]


def iter_candidates(site: RailSite) -> Iterator[Document]:
    """Yield candidates, each a part of a Fabric's `spec`, the most likely first."""
    primary_version = V4 if V4 in site.ranges else V6
    if is_narrow(primary_version, find_usual_prefix(site, primary_version)):
        yield from _iter_point_to_point_candidates(site)
    elif _has_shared_subnets(site, primary_version):
        yield add_ranges(site, _build_shared_subnet_candidate(site, primary_version))
    else:
        if primary_version == V6 and (wide := _build_ipv6_prefix_field(site)):
            yield add_ranges(site, {"addressing": {"scheme": "point-to-point"} | wide}) | _build_unit_field(site)
        yield add_ranges(site, _build_node_subnet_candidate(site))


def _iter_point_to_point_candidates(site: RailSite) -> Iterator[Document]:
    wide = _build_ipv6_prefix_field(site)
    spectrum_x = [SPECTRUM_X_SUPERNET.get_subnet(rail, SPECTRUM_X_RAIL_PREFIX) for rail in range(8)]
    if list(site.ranges.get(V4, ())) == spectrum_x[: site.rail_count]:
        hosts = [
            (address.number - site.ranges[V4][rail].base) % UNIT_ADDRESSES // 2
            for rail, address in list_addresses(site, V4)
        ]
        nodes_per_unit = max(USUAL_NODES_PER_UNIT, 1 << max(hosts).bit_length())
        addressing = {"scheme": "point-to-point", "layout": "spectrum-x-2tier"} | wide
        yield add_ranges(site, {"addressing": addressing}, known_version=V4) | {"nodesPerUnit": str(nodes_per_unit)}
    yield add_ranges(site, {"addressing": {"scheme": "point-to-point"} | wide})


def _build_ipv6_prefix_field(site: RailSite) -> Document:
    """Return the field for IPv6 subnets that are wider than a /127."""
    prefix = find_usual_prefix(site, V6) if V6 in site.ranges else None
    is_wide = prefix is not None and IPV6_SUBNET_PREFIX <= prefix < BITS[V6] - 1
    return {"ipv6NodePrefix": str(prefix)} if is_wide else {}


def _build_unit_field(site: RailSite) -> Document:
    """Return the field for units of 256 subnets, as Spectrum-X has in IPv6, if hosts are beyond the first 256."""
    size = 1 << (BITS[V6] - find_usual_prefix(site, V6))
    numbers = [(address.number - site.ranges[V6][rail].base) // size for rail, address in list_addresses(site, V6)]
    return {"nodesPerUnit": str(UNIT_ADDRESSES)} if max(numbers) >= UNIT_ADDRESSES else {}


def _has_shared_subnets(site: RailSite, ip_version: int) -> bool:
    """Return whether the hosts of a rail share one subnet.

    With a single host, the subnet of each port must be the range of its rail.
    """
    for rail in range(site.rail_count):
        subnets = Counter(
            address.subnet for address_rail, address in list_addresses(site, ip_version) if address_rail == rail
        )
        if len(subnets) > 1:
            return subnets.most_common(1)[0][1] * 2 > subnets.total()
    return all(site.ranges[ip_version][rail] == address.subnet for rail, address in list_addresses(site, ip_version))


def _build_node_subnet_candidate(site: RailSite) -> Document:
    addressing = {"scheme": "node-subnet"}
    for ip_version in site.ranges:
        addressing[f"ipv{ip_version}NodePrefix"] = str(find_usual_prefix(site, ip_version))
    return {"addressing": addressing}


def _build_shared_subnet_candidate(site: RailSite, primary_version: int) -> Document:
    gateways = {ip_version: _find_gateways(site, ip_version) for ip_version in site.ranges}
    addressing: Document = {"scheme": "shared-subnet"}
    rails: list[Document] = [{} for _ in range(site.rail_count)]
    names = {
        name
        for ip_version, version_gateways in gateways.items()
        if (name := _classify_gateways(site.ranges[ip_version], version_gateways))
    }
    if len(names) == 1 and all(
        _classify_gateways(site.ranges[ip_version], version_gateways)
        for ip_version, version_gateways in gateways.items()
    ):
        addressing |= {} if names == {"none"} else {"gateway": names.pop()}
    else:
        for ip_version, version_gateways in gateways.items():
            for rail, gateway in enumerate(version_gateways):
                if gateway is not None:
                    rails[rail]["gateway" if ip_version == V4 else "gateway6"] = format_address(ip_version, gateway)
    block_size = _find_block_size(site, primary_version, gateways[primary_version])
    addressing |= {} if block_size == USUAL_BLOCK else {"podAddresses": str(block_size - 1)}
    return {"addressing": addressing, "rails": rails if any(rails) else None}


def _find_gateways(site: RailSite, ip_version: int) -> list[int | None]:
    counts: list[Counter[int]] = [Counter() for _ in range(site.rail_count)]
    for host, ports in site.ports.items():
        for rail in ports:
            gateway = site.find_gateway(host, rail, ip_version)
            if gateway is not None:
                counts[rail][gateway] += 1
    return [gateways.most_common(1)[0][0] if gateways else None for gateways in counts]


def _classify_gateways(ranges: Sequence[Range], gateways: list[int | None]) -> str | None:
    """Return the value of `addressing.gateway` for these gateways: none, first or last; None if no value fits."""
    if all(gateway is None for gateway in gateways):
        return "none"
    if gateways == [rail_range.base + 1 for rail_range in ranges]:
        return "first"
    last = [rail_range.last - (rail_range.version == V4) for rail_range in ranges]
    return "last" if gateways == last else None


def _find_block_size(site: RailSite, ip_version: int, gateways: list[int | None]) -> int:
    """Return the largest size (1 + podAddresses) of blocks that start at the ports and contain no reserved address."""
    rail_ranges = site.ranges[ip_version]
    offsets = [
        (address.number - rail_ranges[rail].base, rail)
        for rail, address in list_addresses(site, ip_version)
        if address.number in rail_ranges[rail]
    ]
    step = min(gcd(*(offset for offset, _ in offsets)), MAX_BLOCK)
    if len(site.ports) == 1 and step % USUAL_BLOCK == 0:
        step = USUAL_BLOCK
    for block_size in (candidate for candidate in range(step, 1, -1) if step % candidate == 0):
        if not any(
            offset // block_size in _list_reserved_blocks(rail_ranges[rail], gateways[rail], block_size)
            for offset, rail in offsets
        ):
            return block_size
    return 1


def _list_reserved_blocks(rail_range: Range, gateway: int | None, block_size: int) -> set[int]:
    return {0, (rail_range.last - rail_range.base) // block_size} | (
        {(gateway - rail_range.base) // block_size} if gateway is not None else set()
    )
