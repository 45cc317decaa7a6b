"""Which addressing could have given these addresses: `rails`, `addressing` and `nodesPerUnit` of a Fabric.

The candidates are tried one after the other; the one whose plan differs least from the files is taken.
"""

from __future__ import annotations

from collections import Counter
from math import gcd
from typing import TYPE_CHECKING, Any

from trackbed.fabric.importers.netplan.grouping import is_narrow
from trackbed.fabric.model.addressing import SPECTRUM_X_RAIL_PREFIX, SPECTRUM_X_SUPERNET
from trackbed.fabric.model.ranges import BITS, V4, V6, Range, text
from trackbed.fabric.plan.railranges import IPV6_SUBNET_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trackbed.fabric.importers.netplan.interfaces import StaticAddress
    from trackbed.fabric.importers.netplan.site import NetplanSite

UNIT_ADDRESSES = 256
USUAL_NODES_PER_UNIT = 32
USUAL_BLOCK = 16
MAX_BLOCK = 65536

Document = dict[str, Any]


def iter_candidates(site: NetplanSite) -> Iterator[Document]:
    """Pieces of a Fabric's `spec`, the likeliest first."""
    primary = V4 if V4 in site.ranges else V6
    prefix = Counter(a.prefix for _, a in _addresses(site, primary)).most_common(1)[0][0]
    if is_narrow(primary, prefix):
        yield from _point_to_point(site)
    elif _shared(site, primary):
        yield _with_ranges(site, _shared_subnet(site, primary))
    else:
        yield _with_ranges(site, _node_subnet(site))


def _addresses(site: NetplanSite, version: int) -> list[tuple[int, StaticAddress]]:
    """(rail, address) of every port."""
    every = ((rail, site.find_address(host, rail, version)) for host, own in site.ports.items() for rail in own)
    return [(rail, address) for rail, address in every if address is not None]


def _point_to_point(site: NetplanSite) -> Iterator[Document]:
    spectrum_x = [SPECTRUM_X_SUPERNET.subnet(rail, SPECTRUM_X_RAIL_PREFIX) for rail in range(8)]
    if list(site.ranges.get(V4, ())) == spectrum_x[: site.rail_count]:
        hosts = [(a.number - site.ranges[V4][rail].base) % UNIT_ADDRESSES // 2 for rail, a in _addresses(site, V4)]
        unit = max(USUAL_NODES_PER_UNIT, 1 << max(hosts).bit_length())
        addressing = {"scheme": "point-to-point", "layout": "spectrum-x-2tier"}
        yield _with_ranges(site, {"addressing": addressing}, given=V4) | {"nodesPerUnit": str(unit)}
    yield _with_ranges(site, {"addressing": {"scheme": "point-to-point"}})


def _shared(site: NetplanSite, version: int) -> bool:
    """Whether a rail's hosts share one subnet; a host alone does if its port is not second to a gateway."""
    for rail in range(site.rail_count):
        subnets = Counter(a.subnet for r, a in _addresses(site, version) if r == rail)
        if len(subnets) > 1:
            return subnets.most_common(1)[0][1] * 2 > subnets.total()
    return all(site.ranges[version][rail] == a.subnet for rail, a in _addresses(site, version))


def _node_subnet(site: NetplanSite) -> Document:
    addressing = {"scheme": "node-subnet"}
    for version in site.ranges:
        prefix = Counter(a.prefix for _, a in _addresses(site, version)).most_common(1)[0][0]
        addressing[f"ipv{version}NodePrefix"] = str(prefix)
    return {"addressing": addressing}


def _shared_subnet(site: NetplanSite, primary: int) -> Document:
    gateways = {version: _gateways(site, version) for version in site.ranges}
    addressing: Document = {"scheme": "shared-subnet"}
    rails: list[Document] = [{} for _ in range(site.rail_count)]
    words = {word for version, found in gateways.items() if (word := _word(site.ranges[version], found))}
    if len(words) == 1 and all(_word(site.ranges[v], found) for v, found in gateways.items()):
        addressing |= {} if words == {"none"} else {"gateway": words.pop()}
    else:
        for version, found in gateways.items():
            for rail, gateway in enumerate(found):
                if gateway is not None:
                    rails[rail]["gateway" if version == V4 else "gateway6"] = text(version, gateway)
    block = _block(site, primary, gateways[primary])
    addressing |= {} if block == USUAL_BLOCK else {"podAddresses": str(block - 1)}
    return {"addressing": addressing, "rails": rails if any(rails) else None}


def _gateways(site: NetplanSite, version: int) -> list[int | None]:
    counts: list[Counter[int]] = [Counter() for _ in range(site.rail_count)]
    for host, own in site.ports.items():
        for rail in own:
            gateway = site.find_gateway(host, rail, version)
            if gateway is not None:
                counts[rail][gateway] += 1
    return [found.most_common(1)[0][0] if found else None for found in counts]


def _word(ranges: Sequence[Range], gateways: list[int | None]) -> str | None:
    """The Fabric's word for these gateways, if it has one."""
    if all(gateway is None for gateway in gateways):
        return "none"
    if gateways == [cut.base + 1 for cut in ranges]:
        return "first"
    last = [cut.last - (cut.version == V4) for cut in ranges]
    return "last" if gateways == last else None


def _block(site: NetplanSite, version: int, gateways: list[int | None]) -> int:
    """The largest block, 1 + podAddresses, at whose beginnings all ports stand and that holds nothing reserved."""
    cuts = site.ranges[version]
    own = [(a.number - cuts[rail].base, rail) for rail, a in _addresses(site, version) if a.number in cuts[rail]]
    step = min(gcd(*(offset for offset, _ in own)), MAX_BLOCK)
    if len(site.ports) == 1 and step % USUAL_BLOCK == 0:
        step = USUAL_BLOCK
    for block in (b for b in range(step, 1, -1) if step % b == 0):
        if not any(offset // block in _reserved(cuts[rail], gateways[rail], block) for offset, rail in own):
            return block
    return 1


def _reserved(cut: Range, gateway: int | None, block: int) -> set[int]:
    return {0, (cut.last - cut.base) // block} | ({(gateway - cut.base) // block} if gateway is not None else set())


def _with_ranges(site: NetplanSite, document: Document, given: int | None = None) -> Document:
    """Write the rails' ranges: as one supernet where it gives the same, else rail by rail.

    `given` is the IP version whose ranges the layout says already.
    """
    addressing = dict(document["addressing"])
    rails: list[Document] = [dict(rail) for rail in document.get("rails") or [{}] * site.rail_count]
    for version, cuts in site.ranges.items():
        if version == given:
            continue
        short = _supernet(site, version, shared=addressing["scheme"] == "shared-subnet")
        if short:
            addressing |= short
            continue
        addressing[f"ipv{version}"] = str(site.supernets[version])
        for rail, cut in enumerate(cuts):
            rails[rail] = {f"ipv{version}": str(cut)} | rails[rail]
    return {"rails": rails if any(rails) else str(site.rail_count), "addressing": addressing}


def _supernet(site: NetplanSite, version: int, *, shared: bool) -> Document | None:
    """The supernet whose equal shares are the rails' ranges, and the shares' length unless it is the default."""
    cuts, key = site.ranges[version], f"ipv{version}"
    prefix, base = cuts[0].prefix, cuts[0].base
    size = 1 << (BITS[version] - prefix)
    if any(cut != Range(version, base + rail * size, prefix) for rail, cut in enumerate(cuts)):
        return None
    supernet = site.supernets[version]
    smallest = Range(version, base, prefix - (len(cuts) - 1).bit_length())
    if supernet.base != base:
        supernet = smallest
    if base & (supernet.size - 1):
        return None
    default = supernet.prefix + (len(cuts) - 1).bit_length()
    if shared and version == V6:
        default = max(IPV6_SUBNET_PREFIX, default)
    return {key: str(supernet)} | ({} if prefix == default else {f"{key}RailPrefix": str(prefix)})
