"""Cables, segments and routers for the tests of probes: veth pairs between namespaces."""

import itertools
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import ip_interface
from pathlib import Path

from tests.namespaces import fresh_netns
from tests.waiting import wait_until
from trackbed.kernel.netlink import addresses, links, routes
from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.netlink.sockets import Socket

_numbers = itertools.count()
_MAIN = 254  # RT_TABLE_MAIN
FORWARDING = {"forwarding": 1}


@dataclass(frozen=True, slots=True)
class Port:
    """One end of a cable."""

    netns: int
    ifindex: int
    name: str
    mac: bytes
    address: int


def host(stack: ExitStack) -> int:
    """Create a namespace with loopback up; it is deleted when `stack` closes."""
    netns = stack.enter_context(fresh_netns())
    with enter_netns(netns):  # duplicate address detection would delay IPv6 by a second
        for scope in ("all", "default"):
            Path(f"/proc/sys/net/ipv6/conf/{scope}/accept_dad").write_text("0")
    with Socket(netns=netns) as sock:
        sock.send([links.build_set_link(1, up=True)])
    return netns


def router(stack: ExitStack) -> int:
    """Create a namespace that forwards IPv6 (for IPv4 see FORWARDING)."""
    netns = host(stack)
    with enter_netns(netns):
        Path("/proc/sys/net/ipv6/conf/all/forwarding").write_text("1")
    return netns


def cable(near: int, near_address: str, far: int, far_address: str, mtu: int | None = None) -> tuple[Port, Port]:
    """Join two namespaces by a veth pair; both ends have carrier and an address ("10.0.0.1/24", or "" for none)."""
    number = next(_numbers)
    ends = links.VethEnd(f"near{number}", near, mtu), links.VethEnd(f"far{number}", far, mtu)
    with Socket(netns=near) as here, Socket(netns=far) as there:
        here.send([links.build_create_veth(*ends)])
        sides = (here, ends[0].name), (there, ends[1].name)
        for sock, name in sides:
            sock.send([links.build_set_link(links.get_link(sock, name).index, up=True)])
        for sock, name in sides:
            _wait_for_carrier(sock, name)
        return _configure_end(near, here, ends[0].name, near_address), _configure_end(
            far, there, ends[1].name, far_address
        )


def _wait_for_carrier(sock: Socket, name: str) -> None:
    """Wait for operstate up; frames sent before that are lost, and a bridge does not repeat them."""
    wait_until(lambda: links.get_link(sock, name).operstate == "up", f"{name} does not come up")


def _configure_end(netns: int, sock: Socket, name: str, text: str) -> Port:
    link = links.get_link(sock, name)
    interface = ip_interface(text) if text else None
    if interface:
        family = socket.AF_INET if interface.version == 4 else socket.AF_INET6
        address = addresses.Address(link.index, family, int(interface), interface.network.prefixlen)
        sock.send([addresses.build_add_address(address)])
        wait_until(lambda: not _has_tentative_address(sock), f"{text} stays tentative")
    return Port(netns, link.index, name, links.parse_mac(link.mac), int(interface) if interface else 0)


def _has_tentative_address(sock: Socket) -> bool:
    return any(address.flags & addresses.IFA_F_TENTATIVE for address in addresses.list_addresses(sock, socket.AF_INET6))


def configure(port: Port, ipv4_conf: Mapping[str, int]) -> None:
    """Set sysctls of one interface."""
    with Socket(netns=port.netns) as sock:
        sock.send([links.build_set_link(port.ifindex, ipv4_conf=ipv4_conf)])


def route(port: Port, to: str, via: Port) -> None:
    """Send `to` ("0.0.0.0/0") through the neighbour at the other end of the cable."""
    interface = ip_interface(to)
    family = socket.AF_INET if interface.version == 4 else socket.AF_INET6
    network = interface.network
    dst, prefix = int(network.network_address), network.prefixlen
    with Socket(netns=port.netns) as sock:
        sock.send([routes.build_add_route(routes.Route(family, _MAIN, dst, prefix, port.ifindex, via.address))])


@dataclass(frozen=True, slots=True)
class Segment:
    """A bridge in a namespace."""

    netns: int
    bridge: int

    def attach(self, netns: int, address: str) -> Port:
        """Connect a host by a cable."""
        port, jack = cable(netns, address, self.netns, "")
        with Socket(netns=self.netns) as sock:
            sock.send([links.build_set_link(jack.ifindex, master=self.bridge)])
        return port


def segment(stack: ExitStack) -> Segment:
    """Create a bridge in a new namespace."""
    netns = host(stack)
    with Socket(netns=netns) as sock:
        sock.send([links.build_create_bridge("switch")])
        index = links.get_link(sock, "switch").index
        sock.send([links.build_set_link(index, up=True)])
    return Segment(netns, index)
