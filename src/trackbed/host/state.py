"""What one look at a machine's network sees: read once, then only compared.

The kernel has no way to read all of it in one moment; each list is consistent in itself (a list that changed while it
was read is read again), and `apply` looks again after it changed something.
"""

from __future__ import annotations

import errno
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from trackbed.host.setting import PROTOCOL
from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.addresses import IFA_ADDRESS, IFA_LOCAL, RTM_GETADDR, Address, list_addresses
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.links import Link, list_links
from trackbed.kernel.netlink.neighbours import Neighbour, list_neighbours
from trackbed.kernel.netlink.routes import Route, list_routes
from trackbed.kernel.netlink.rules import PolicyRule, list_rules
from trackbed.kernel.netlink.sockets import RequestError, Socket

if TYPE_CHECKING:
    from collections.abc import Callable

    from trackbed.host.machine import Absent, Machine, Unreadable

IFA_PROTO = 11
"""Who made an address (include/uapi/linux/if_addr.h, since Linux 5.18; older kernels ignore it)."""
ADDRESS_HEAD = struct.Struct("=BBBBI")
"""struct ifaddrmsg: family, prefix length, flags, scope, index."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class HostState:
    """Interfaces, addresses, routes (without table local), rules and neighbours of a machine.

    `ours` are the addresses that Trackbed has set: (index, family, address).
    """

    machine: Machine
    links: tuple[Link, ...]
    addresses: tuple[Address, ...]
    routes: tuple[Route, ...]
    rules: tuple[PolicyRule, ...]
    neighbours: tuple[Neighbour, ...]
    ours: frozenset[tuple[int, int, int]]

    def link(self, name: str) -> Link | None:
        """The interface of this name."""
        return next((link for link in self.links if link.name == name), None)

    def named(self, index: int) -> str:
        """The name of an interface by its index, for people."""
        return next((link.name for link in self.links if link.index == index), f"interface {index}")

    def addresses_on(self, link: Link) -> tuple[Address, ...]:
        """All addresses of an interface."""
        return tuple(own for own in self.addresses if own.index == link.index)

    def sysctl(self, key: str) -> str | Absent | Unreadable:
        """A kernel parameter, read now."""
        return self.machine.read_sysctl(key)


def read(machine: Machine) -> HostState:
    """Look at a machine; NetlinkError or OSError where the kernel does not answer."""
    with machine.socket() as sock:
        return HostState(
            machine,
            list_links(sock),
            _both(lambda family: list_addresses(sock, family)),
            _both(lambda family: list_routes(sock, family)),
            _both(lambda family: list_rules(sock, family)),
            _both(lambda family: list_neighbours(sock, family)),
            frozenset(_both(lambda family: _ours(sock, family))),
        )


def _both(listed: Callable[[int], tuple[_T, ...]]) -> tuple[_T, ...]:
    """IPv4 and IPv6; a kernel without IPv6 has nothing there."""
    found = listed(socket.AF_INET)
    try:
        return tuple(dict.fromkeys(found + listed(socket.AF_INET6)))
    except RequestError as error:
        if error.errno not in {errno.EOPNOTSUPP, errno.EAFNOSUPPORT}:
            raise
        return found


def _ours(sock: Socket, family: int) -> tuple[tuple[int, int, int], ...]:
    found = []
    for reply in sock.dump(Message(RTM_GETADDR, 0, ADDRESS_HEAD.pack(family, 0, 0, 0, 0))):
        index = ADDRESS_HEAD.unpack_from(reply.body)[4]
        known = codec.parse_attributes(reply.body, ADDRESS_HEAD.size)
        if codec.as_int(known.get(IFA_PROTO)) == PROTOCOL:
            own = known.get(IFA_LOCAL, known.get(IFA_ADDRESS, b""))
            found.append((index, family, int.from_bytes(own, "big")))
    return tuple(found)
