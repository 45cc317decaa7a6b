"""The network state of a machine.

The kernel cannot list everything atomically. Each list is consistent in itself: a list that changes while it is read
is read again. `apply` reads the state again after its changes.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from trackbed.host.machine import Machine
from trackbed.kernel.netlink.addresses import Address, list_addresses
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.links import Link, list_links
from trackbed.kernel.netlink.neighbours import Neighbour, list_neighbours
from trackbed.kernel.netlink.routes import Route, list_routes
from trackbed.kernel.netlink.rules import PolicyRule, list_rules
from trackbed.kernel.netlink.sockets import RequestError, Socket


@dataclass(frozen=True)
class HostState:
    """Interfaces, addresses, routes (without table local), rules and neighbours of a machine."""

    machine: Machine
    links: tuple[Link, ...]
    addresses: tuple[Address, ...]
    routes: tuple[Route, ...]
    rules: tuple[PolicyRule, ...]
    neighbours: tuple[Neighbour, ...]

    def find_link(self, name: str) -> Link | None:
        """Return the interface with this name; None if there is none."""
        return next((link for link in self.links if link.name == name), None)

    def find_name(self, index: int) -> str:
        """Return the name of an interface by its index, for messages to the user."""
        return next((link.name for link in self.links if link.index == index), f"interface {index}")


def read_host_state(machine: Machine) -> HostState:
    """Read the state of a machine. Raises NetlinkError or OSError if the kernel does not answer."""
    with machine.open_socket() as sock:
        return HostState(machine, **{name: dump(sock) for name, dump in _DUMPS.items()})


def read_available_state(machine: Machine) -> tuple[HostState, dict[str, str]]:
    """Read the state of a machine; a listing that the kernel does not give is empty.

    Returns:
        The state, and the name of each missing listing (a field of HostState) -> the reason.

    Raises:
        OSError: the machine has no netlink socket.
    """
    listings: dict[str, Any] = {}
    failures: dict[str, str] = {}
    for name, dump in _DUMPS.items():
        listings[name] = ()
        try:
            with machine.open_socket() as sock:  # another one for each listing: late replies of one reach no other
                listings[name] = dump(sock)
        except NetlinkError as error:
            failures[name] = str(error) or type(error).__name__
    return HostState(machine, **listings), failures


_T = TypeVar("_T", Address, Route, PolicyRule, Neighbour)


def list_both_families(sock: Socket, list_family: Callable[[Socket, int], tuple[_T, ...]]) -> tuple[_T, ...]:
    """Return the entries of IPv4 and IPv6. A kernel without IPv6 rejects the second request or repeats IPv4."""
    entries = list_family(sock, socket.AF_INET)
    try:
        return entries + tuple(entry for entry in list_family(sock, socket.AF_INET6) if entry.family == socket.AF_INET6)
    except RequestError as error:
        if error.errno not in {errno.EOPNOTSUPP, errno.EAFNOSUPPORT}:
            raise
        return entries


_DUMPS: dict[str, Callable[[Socket], Any]] = {
    "links": list_links,
    "addresses": partial(list_both_families, list_family=list_addresses),
    "routes": partial(list_both_families, list_family=list_routes),
    "rules": partial(list_both_families, list_family=list_rules),
    "neighbours": partial(list_both_families, list_family=list_neighbours),
}
"""Field of HostState -> the function that lists it."""
