"""Through which physical interfaces a host's default routes lead."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.host.discover.wanted import NETDEVS
from trackbed.host.snapshot.snapshot import Snapshot

_MASK, _DESTINATION6, _FLAGS6, _NAME6 = 7, 0, 8, 9
_ROUTE_UP, _REJECT = 0x1, 0x200


def default_interfaces(seen: Snapshot) -> frozenset[str]:
    """Interfaces with a default route, and those below a VLAN, bond or bridge that has one."""
    found: set[str] = set()
    waiting = [*_ipv4(seen), *_ipv6(seen)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _below(seen, name)
    return frozenset(found)


def _ipv4(seen: Snapshot) -> Iterator[str]:
    """Of /proc/net/route: interface, destination, gateway, flags, ..., mask in column 7."""
    for words in _rows(seen, "/proc/net/route"):
        if len(words) > _MASK and words[1] == words[_MASK] == "00000000":
            yield words[0]


def _ipv6(seen: Snapshot) -> Iterator[str]:
    """Of /proc/net/ipv6_route: destination, its length, ..., flags, interface."""
    for words in _rows(seen, "/proc/net/ipv6_route"):
        if len(words) <= _NAME6 or words[1] != "00" or set(words[_DESTINATION6]) != {"0"}:
            continue
        flags = int(words[_FLAGS6], 16)
        if flags & _ROUTE_UP and not flags & _REJECT and words[_NAME6] != "lo":
            yield words[_NAME6]


def _rows(seen: Snapshot, path: str) -> list[list[str]]:
    return [line.split() for line in (seen.text(path) or "").splitlines()]


def _below(seen: Snapshot, name: str) -> Iterator[str]:
    for path in seen.glob(f"{NETDEVS}/{name}/lower_*"):
        yield path.rpartition("/lower_")[2]
    for path in seen.glob(f"{NETDEVS}/*/master"):
        if seen.target(path) == name:
            yield path.split("/")[4]
