"""Grouping of addresses into rails, by their ranges and never by the order of interfaces.

The *key* of an address is the range that it shares with the addresses of the same rail on other hosts. That is its own
subnet if several hosts have ports in it; else the destination of its narrowest route that contains no second port of
any host. Without such routes (/31s), it is the widest prefix that separates the ports of every host.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trackbed.fabric.importers.interface import Interface, StaticAddress
from trackbed.fabric.model.ranges import BITS, Range

JUMBO_BYTES = 4200
"""MTU that RDMA with path MTU 4096 needs; storage and management networks mostly have 1500."""


class Member(NamedTuple):
    """An address of an interface, and the key that identifies its rail."""

    interface: Interface
    address: StaticAddress
    key: Range

    @property
    def host(self) -> str:
        """Name of the host."""
        return self.interface.host


Groups = dict[Range, list[Member]]


def build_members(interfaces: Sequence[Interface], ip_version: int) -> list[Member]:
    """Return every address of one IP version with its key."""
    wide_ranges, shared_subnets = (
        _find_wide_ranges(interfaces, ip_version),
        _find_shared_subnets(interfaces, ip_version),
    )
    members = []
    for interface in interfaces:
        for address in _list_addresses(interface, ip_version):
            shared = address.subnet in shared_subnets
            key = address.subnet if shared else _choose_key(interface, address, wide_ranges)
            members.append(Member(interface, address, key))
    return members


def _list_addresses(interface: Interface, ip_version: int) -> list[StaticAddress]:
    return [address for address in interface.addresses if address.version == ip_version]


def _choose_key(interface: Interface, address: StaticAddress, wide_ranges: set[Range]) -> Range:
    candidates = _find_routed_ranges(interface, address) - wide_ranges
    return max(candidates, key=lambda routed: routed.prefix, default=address.subnet)


def _find_shared_subnets(interfaces: Iterable[Interface], ip_version: int) -> set[Range]:
    """Return the subnets with ports of several hosts; two hosts in one /31 are a mistake and are ignored."""
    first_hosts: dict[Range, str] = {}
    return {
        address.subnet
        for interface in interfaces
        for address in _list_addresses(interface, ip_version)
        if not is_narrow(ip_version, address.prefix)
        if first_hosts.setdefault(address.subnet, interface.host) != interface.host
    }


def _find_routed_ranges(interface: Interface, address: StaticAddress) -> set[Range]:
    """Return the route destinations that contain the address and are wider than its subnet."""
    destinations = {route.to for route in interface.routes}
    return {
        destination
        for destination in destinations
        if destination.version == address.version
        and 0 < destination.prefix < address.prefix
        and address.number in destination
    }


def _find_wide_ranges(interfaces: Sequence[Interface], ip_version: int) -> set[Range]:
    """Return the route destinations that span several rails: most hosts in them have two or more ports there."""
    by_host: dict[str, list[Interface]] = defaultdict(list)
    for interface in interfaces:
        by_host[interface.host].append(interface)
    hosts, crowded = Counter[Range](), Counter[Range]()
    for host_interfaces in by_host.values():
        ports = [(interface, _list_addresses(interface, ip_version)) for interface in host_interfaces]
        destinations = {
            destination
            for interface, addresses in ports
            for address in addresses
            for destination in _find_routed_ranges(interface, address)
        }
        for destination in destinations:
            hosts[destination] += 1
            inside = sum(any(address.number in destination for address in addresses) for _, addresses in ports)
            crowded[destination] += inside > 1
    return {destination for destination, count in crowded.items() if count * 2 > hosts[destination]}


def select_rail_members(members: Iterable[Member]) -> list[Member]:
    """Return the members with the most common prefix lengths, most likely the rails; jumbo frames count double."""
    shapes: dict[tuple[int, int], list[Member]] = defaultdict(list)
    for member in members:
        shapes[member.address.prefix, member.key.prefix].append(member)

    def compute_weight(group: list[Member]) -> tuple[int, int]:
        mtu = find_usual_mtu(member.interface for member in group) or 0
        return len(group) * (2 if mtu >= JUMBO_BYTES else 1), mtu

    return max(shapes.values(), key=compute_weight, default=[])


def group_members(members: Sequence[Member]) -> Groups:
    """Group members by key; keys of a single host are widened until they cover several hosts."""
    groups = _group_by_key(members)
    hosts = {member.host for member in members}
    separate = all(len({member.host for member in group}) == 1 for group in groups.values())
    narrow = any(member.address.prefix >= BITS[member.address.version] - 1 for member in members)
    plain = all(member.key == member.address.subnet for member in members)
    if members and separate and (len(hosts) > 1 or narrow) and plain:
        return _group_by_key(_widen_keys(members))
    return groups


def _group_by_key(members: Iterable[Member]) -> Groups:
    groups: Groups = defaultdict(list)
    for member in members:
        groups[member.key].append(member)
    return dict(groups)


def _widen_keys(members: Sequence[Member]) -> Sequence[Member]:
    """Return the members with keys widened as far as they still separate the ports of each host."""
    ip_version, longest = members[0].address.version, min(member.address.prefix for member in members)
    ports = max(Counter(member.host for member in members).values())
    for prefix in range(1, longest):
        shift = BITS[ip_version] - prefix
        positions = {(member.host, member.address.number >> shift) for member in members}
        if len(positions) == len(members) and len({key for _, key in positions}) == ports:
            return [
                member._replace(key=Range(ip_version, member.address.number >> shift << shift, prefix))
                for member in members
            ]
    return members


def drop_strays(groups: Groups) -> Groups:
    """Return the groups without strays: small groups, mostly mistakes, whose hosts all lack a port in a large group."""
    largest = max((len(group) for group in groups.values()), default=0)
    large = {key for key, group in groups.items() if len(group) * 2 > largest}
    hosts = {key: {member.host for member in group} for key, group in groups.items()}
    common_hosts = set.intersection(*(hosts[key] for key in large)) if large else set()
    return {key: group for key, group in groups.items() if key in large or hosts[key] & common_hosts}


def find_odd_ranges(groups: Groups) -> set[Range]:
    """Return the subnets that differ from the others in their MTU, or are outside of their even spacing."""
    plain = all(member.key == member.address.subnet for group in groups.values() for member in group)
    if len(groups) < 3 or not plain:  # noqa: PLR2004 - two are no pattern
        return set()
    mtus = {key: find_usual_mtu(member.interface for member in group) for key, group in groups.items()}
    usual = Counter(mtus.values()).most_common(1)[0][0]
    odd = {key for key, mtu in mtus.items() if mtu != usual}
    return odd | set(groups) - odd - _find_evenly_spaced(sorted(set(groups) - odd))


def _find_evenly_spaced(ranges: list[Range]) -> set[Range]:
    """Return the longest evenly spaced run if it has more than half of the ranges, else all ranges."""
    longest: list[Range] = []
    for start in range(len(ranges) - 1):
        first, step = ranges[start].base, ranges[start + 1].base - ranges[start].base
        run = [ranges[start]]
        run += [later for index, later in enumerate(ranges[start + 1 :], 1) if later.base == first + step * index]
        longest = max(longest, run, key=len)
    return set(longest) if len(longest) * 2 > len(ranges) and len(longest) > 2 else set(ranges)  # noqa: PLR2004 - two are no run


def find_usual_mtu(interfaces: Iterable[Interface]) -> int | None:
    """Return the most common configured MTU, in bytes."""
    counts = Counter(interface.mtu_bytes for interface in interfaces if interface.mtu_bytes is not None)
    return counts.most_common(1)[0][0] if counts else None


def is_narrow(ip_version: int, prefix: int) -> bool:
    """Return whether a subnet holds only the host and its leaf: /31 (RFC 3021), /127 (RFC 6164)."""
    return prefix == BITS[ip_version] - 1
