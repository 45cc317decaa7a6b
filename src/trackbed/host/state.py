"""The network state of a machine, read once and then only compared.

The kernel has no way to read all of it in one moment; each list is consistent in itself (a list that changed while it
was read is read again), and `apply` looks again after it changed something.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from trackbed.host.machine import Absent, Machine, Unreadable
from trackbed.kernel.netlink.addresses import Address, list_addresses
from trackbed.kernel.netlink.links import Link, list_links
from trackbed.kernel.netlink.neighbours import Neighbour, list_neighbours
from trackbed.kernel.netlink.routes import Route, list_routes
from trackbed.kernel.netlink.rules import PolicyRule, list_rules
from trackbed.kernel.netlink.sockets import RequestError, Socket


@dataclass(frozen=True, slots=True)
class HostState:
    """Interfaces, addresses, routes (without table local), rules and neighbours of a machine."""

    machine: Machine
    links: tuple[Link, ...]
    addresses: tuple[Address, ...]
    routes: tuple[Route, ...]
    rules: tuple[PolicyRule, ...]
    neighbours: tuple[Neighbour, ...]

    def find_link(self, name: str) -> Link | None:
        """Return the interface with this name."""
        return next((link for link in self.links if link.name == name), None)

    def find_name(self, index: int) -> str:
        """Return the name of an interface for messages, by its index."""
        return next((link.name for link in self.links if link.index == index), f"interface {index}")

    def find_addresses(self, link: Link) -> tuple[Address, ...]:
        """Return all addresses of an interface."""
        return tuple(address for address in self.addresses if address.index == link.index)

    def read_sysctl(self, key: str) -> str | Absent | Unreadable:
        """Return a kernel parameter."""
        return self.machine.read_sysctl(key)


def read(machine: Machine) -> HostState:
    """Read the state of a machine. Raises NetlinkError or OSError where the kernel does not answer."""
    with machine.open_socket() as sock:
        return HostState(
            machine,
            list_links(sock),
            list_families(sock, list_addresses),
            list_families(sock, list_routes),
            list_families(sock, list_rules),
            list_families(sock, list_neighbours),
        )


_T = TypeVar("_T", Address, Route, PolicyRule, Neighbour)


def list_families(sock: Socket, list_family: Callable[[Socket, int], tuple[_T, ...]]) -> tuple[_T, ...]:
    """List IPv4 and IPv6. A kernel without IPv6 refuses the second list, or lists IPv4 again."""
    entries = list_family(sock, socket.AF_INET)
    try:
        return entries + tuple(entry for entry in list_family(sock, socket.AF_INET6) if entry.family == socket.AF_INET6)
    except RequestError as error:
        if error.errno not in {errno.EOPNOTSUPP, errno.EAFNOSUPPORT}:
            raise
        return entries
