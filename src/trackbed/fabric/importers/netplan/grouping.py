"""Which addresses belong together on a rail, found by their ranges and never by the order of interfaces.

An address's *key* is the range it shares with the same rail's addresses on other hosts: its own subnet where hosts meet
in it; else the destination of its narrowest route that holds no second port of any host; and where no route says either
(/31s without routes), the widest cut of the address space that puts no two ports of a host together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from trackbed.fabric.model.ranges import BITS, Range

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trackbed.fabric.importers.netplan.interfaces import Interface, StaticAddress

JUMBO_BYTES = 4200
"""RDMA with path MTU 4096 needs this much; storage and management networks mostly have 1500."""


class Member(NamedTuple):
    """An address of an interface, and the range that says which rail it is on."""

    interface: Interface
    address: StaticAddress
    key: Range

    @property
    def host(self) -> str:
        """Whose it is."""
        return self.interface.host


Groups = dict[Range, list[Member]]


def build_members(interfaces: Sequence[Interface], version: int) -> list[Member]:
    """Every address of one IP version with its key."""
    wide, meeting = _wide(interfaces, version), _meeting(interfaces, version)
    return [
        Member(interface, address, address.subnet if address.subnet in meeting else _key(interface, address, wide))
        for interface in interfaces
        for address in interface.addresses
        if address.version == version
    ]


def _key(interface: Interface, address: StaticAddress, wide: set[Range]) -> Range:
    routed = (to for to in _routed(interface, address) if to not in wide)
    return max(routed, key=lambda to: to.prefix, default=address.subnet)


def _meeting(interfaces: Iterable[Interface], version: int) -> set[Range]:
    """Subnets with ports of several hosts in them; two hosts in one /31 are a slip, not a meeting."""
    first: dict[Range, str] = {}
    return {
        address.subnet
        for interface in interfaces
        for address in interface.addresses
        if address.version == version and not is_narrow(version, address.prefix)
        if first.setdefault(address.subnet, interface.host) != interface.host
    }


def _routed(interface: Interface, address: StaticAddress) -> set[Range]:
    """Destinations that hold the address itself and are wider than its subnet."""
    return {
        hop.to
        for hop in interface.routes
        if hop.to.version == address.version and 0 < hop.to.prefix < address.prefix and address.number in hop.to
    }


def _wide(interfaces: Sequence[Interface], version: int) -> set[Range]:
    """Destinations that hold several rails: most hosts with ports in them have two or more."""
    by_host: dict[str, list[Interface]] = defaultdict(list)
    for interface in interfaces:
        by_host[interface.host].append(interface)
    hosts, crowded = Counter[Range](), Counter[Range]()
    for own in by_host.values():
        addresses = [[a for a in i.addresses if a.version == version] for i in own]
        for to in {to for i, listed in zip(own, addresses, strict=True) for a in listed for to in _routed(i, a)}:
            hosts[to] += 1
            crowded[to] += sum(any(a.number in to for a in listed) for listed in addresses) > 1
    return {to for to, count in crowded.items() if count * 2 > hosts[to]}


def select_rail_members(members: Iterable[Member]) -> list[Member]:
    """The members that look like rails: of one shape, on the most ports, jumbo frames counting double."""
    shapes: dict[tuple[int, int], list[Member]] = defaultdict(list)
    for member in members:
        shapes[member.address.prefix, member.key.prefix].append(member)

    def weight(listed: list[Member]) -> tuple[int, int]:
        mtu = find_usual_mtu(member.interface for member in listed) or 0
        return len(listed) * (2 if mtu >= JUMBO_BYTES else 1), mtu

    return max(shapes.values(), key=weight, default=[])


def group_members(members: Sequence[Member]) -> Groups:
    """Members by key; keys that are one host's alone are widened until hosts meet in them."""
    groups = _by_key(members)
    hosts = {member.host for member in members}
    alone = all(len({member.host for member in listed}) == 1 for listed in groups.values())
    narrow = any(member.address.prefix >= BITS[member.address.version] - 1 for member in members)
    if members and alone and (len(hosts) > 1 or narrow) and all(m.key == m.address.subnet for m in members):
        return _by_key(_widened(members))
    return groups


def _by_key(found: Iterable[Member]) -> Groups:
    groups: Groups = defaultdict(list)
    for member in found:
        groups[member.key].append(member)
    return dict(groups)


def _widened(found: Sequence[Member]) -> Sequence[Member]:
    """Members keyed by the widest prefix that keeps a host's ports apart and leaves as many ranges as ports."""
    version, longest = found[0].address.version, min(member.address.prefix for member in found)
    ports = max(Counter(member.host for member in found).values())
    for prefix in range(1, longest):
        shift = BITS[version] - prefix
        places = {(member.host, member.address.number >> shift) for member in found}
        if len(places) == len(found) and len({key for _, key in places}) == ports:
            return [m._replace(key=Range(version, m.address.number >> shift << shift, prefix)) for m in found]
    return found


def drop_strays(groups: Groups) -> Groups:
    """The groups less strays: small ones whose every host lacks a port in some large one, most likely slips."""
    most = max((len(listed) for listed in groups.values()), default=0)
    large = {key for key, listed in groups.items() if len(listed) * 2 > most}
    hosts_of = {key: {member.host for member in listed} for key, listed in groups.items()}
    everywhere = set.intersection(*(hosts_of[key] for key in large)) if large else set()
    return {key: listed for key, listed in groups.items() if key in large or hosts_of[key] & everywhere}


def find_odd_ranges(groups: Groups) -> set[Range]:
    """Of groups that only share a subnet: those with another MTU, and those off the even spacing of the rest."""
    if len(groups) < 3 or any(m.key != m.address.subnet for listed in groups.values() for m in listed):  # noqa: PLR2004 - two are no pattern
        return set()
    mtus = {key: find_usual_mtu(member.interface for member in listed) for key, listed in groups.items()}
    usual = Counter(mtus.values()).most_common(1)[0][0]
    odd = {key for key, mtu in mtus.items() if mtu != usual}
    return odd | set(groups) - odd - _evenly_spaced(sorted(set(groups) - odd))


def _evenly_spaced(ranges: list[Range]) -> set[Range]:
    """The longest run with one step, if it is more than half of them; else all."""
    best: list[Range] = []
    for start in range(len(ranges) - 1):
        step = ranges[start + 1].base - ranges[start].base
        run = [ranges[start]]
        run += [r for r in ranges[start + 1 :] if r.base == ranges[start].base + step * (ranges.index(r) - start)]
        best = max(best, run, key=len)
    return set(best) if len(best) * 2 > len(ranges) and len(best) > 2 else set(ranges)  # noqa: PLR2004 - two are no run


def find_usual_mtu(interfaces: Iterable[Interface]) -> int | None:
    """The most common MTU that is written down, in bytes."""
    counts = Counter(i.mtu_bytes for i in interfaces if i.mtu_bytes is not None)
    return counts.most_common(1)[0][0] if counts else None


def is_narrow(version: int, prefix: int) -> bool:
    """Whether a subnet holds only the host and its leaf: /31 (RFC 3021), /127 (RFC 6164)."""
    return prefix == BITS[version] - 1
