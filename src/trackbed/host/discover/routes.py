"""The physical interfaces of a host's default routes."""

import re
from collections.abc import Iterator

from trackbed.host.discover.wanted import NETDEVS
from trackbed.host.snapshot.snapshot import Snapshot

_MASK, _DESTINATION6, _FLAGS6, _NAME6 = 7, 0, 8, 9
_HEX = re.compile(r"[0-9a-f]{1,8}")
_ROUTE_UP, _REJECT = 0x1, 0x200


def find_default_interfaces(snapshot: Snapshot) -> frozenset[str]:
    """Return the interfaces that have a default route, directly or through a VLAN, bond or bridge above them."""
    interfaces: set[str] = set()
    waiting = [*_iter_ipv4_default_interfaces(snapshot), *_iter_ipv6_default_interfaces(snapshot)]
    while waiting:
        name = waiting.pop()
        if name not in interfaces:
            interfaces.add(name)
            waiting += _iter_lower_interfaces(snapshot, name)
    return frozenset(interfaces)


def _iter_ipv4_default_interfaces(snapshot: Snapshot) -> Iterator[str]:
    """Parse /proc/net/route: interface, destination, gateway, flags, ..., mask in column 7."""
    for words in _read_rows(snapshot, "/proc/net/route"):
        if len(words) > _MASK and words[1] == words[_MASK] == "00000000":
            yield words[0]


def _iter_ipv6_default_interfaces(snapshot: Snapshot) -> Iterator[str]:
    """Parse /proc/net/ipv6_route: destination, its length, ..., flags, interface."""
    for words in _read_rows(snapshot, "/proc/net/ipv6_route"):
        if len(words) <= _NAME6 or words[1] != "00" or set(words[_DESTINATION6]) != {"0"}:
            continue
        flags = int(words[_FLAGS6], 16) if _HEX.fullmatch(words[_FLAGS6]) else _REJECT
        if flags & _ROUTE_UP and not flags & _REJECT and words[_NAME6] != "lo":
            yield words[_NAME6]


def _read_rows(snapshot: Snapshot, path: str) -> list[list[str]]:
    return [line.split() for line in (snapshot.read_text(path) or "").splitlines()]


def _iter_lower_interfaces(snapshot: Snapshot, name: str) -> Iterator[str]:
    for path in snapshot.glob(f"{NETDEVS}/{name}/lower_*"):
        yield path.rpartition("/lower_")[2]
    for path in snapshot.glob(f"{NETDEVS}/*/master"):
        if snapshot.get_target(path) == name:
            yield path.split("/")[4]
