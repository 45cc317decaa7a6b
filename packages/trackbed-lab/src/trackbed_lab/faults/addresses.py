"""Faults of the step addresses."""

from __future__ import annotations

import socket

from trackbed.kernel.netlink.addresses import Address, add_address, delete_address
from trackbed.kernel.netlink.links import VethEnd, create_bridge, create_veth, delete_link, set_link
from trackbed.kernel.netlink.neighbours import delete_neighbour, list_neighbours
from trackbed.kernel.netlink.routes import RT_SCOPE_LINK, Route, add_route
from trackbed.kernel.netlink.sockets import Socket
from trackbed_lab.faults.fault import LabFault
from trackbed_lab.faults.target import FaultTarget, UnsuitableError, read_link, send_messages, write_sysctl

_STRANGE = 10 << 24 | 99 << 16 | 1
"""10.99.0.1: an address that no example plans."""
_DOCKER_BITS = 8


def _missing(at: FaultTarget) -> None:
    at.send(*(delete_address(at.build_address(own)) for own in at.port.addressed))


def _prefix(at: FaultTarget) -> None:
    own = at.addressing
    wrong = own.prefix - 7 if own.prefix > 24 else own.prefix + 1  # noqa: PLR2004 - a /31 becomes a /24
    at.send(delete_address(at.build_address()), add_address(at.build_address(prefix=wrong)))


def _extra(at: FaultTarget) -> None:
    at.send(add_address(_strange(at)))


def _extra_gone(at: FaultTarget) -> None:
    at.send(delete_address(_strange(at)))


def _strange(at: FaultTarget) -> Address:
    return Address(at.read_link().index, socket.AF_INET, _STRANGE, 24)


def _stolen(at: FaultTarget) -> Address:
    port = at.peer.port(at.port.rail)
    theirs = read_link(at.lab, at.peer.name, port.netdev if port else "")
    return at.build_address(index=theirs.index, prefix=32)


def _duplicate(at: FaultTarget) -> None:
    send_messages(at.lab, at.peer.name, add_address(_stolen(at)))


def _duplicate_gone(at: FaultTarget) -> None:
    send_messages(at.lab, at.peer.name, delete_address(_stolen(at)))


def _second_port(at: FaultTarget) -> Address:
    return at.build_address(index=at.read_link(at.neighbour.netdev).index, prefix=32)


def _two_ports(at: FaultTarget) -> None:
    at.send(add_address(_second_port(at)))


def _one_port(at: FaultTarget) -> None:
    at.send(delete_address(_second_port(at)))


def _docker(at: FaultTarget) -> None:
    """A bridge whose range lies at the end of the rail's."""
    at.send(create_bridge("docker0"))
    cut = at.node.common.rails[at.port.rail].v4
    if cut is None:
        raise UnsuitableError("this fault needs IPv4 in the Fabric")
    index = at.read_link("docker0").index
    at.send(set_link(index, up=True), add_address(Address(index, socket.AF_INET, cut.last - 1, 32 - _DOCKER_BITS)))


def _docker_gone(at: FaultTarget) -> None:
    at.send(delete_link(at.read_link("docker0").index))


def _pod_route(at: FaultTarget) -> None:
    at.send(create_veth(VethEnd("cali0123456789a"), VethEnd("lost")))
    cut = at.node.common.rails[at.port.rail].v4
    if cut is None:
        raise UnsuitableError("this fault needs IPv4 in the Fabric")
    index = at.read_link("cali0123456789a").index
    route = Route(socket.AF_INET, 254, cut.last - 1, 32, index, scope=RT_SCOPE_LINK)
    at.send(set_link(index, up=True), add_route(route))


def _pod_route_gone(at: FaultTarget) -> None:
    at.send(delete_link(at.read_link("cali0123456789a").index))


def _dad(at: FaultTarget) -> None:
    """The leaf takes the host's IPv6 address before the host asks for it again."""
    own = at.port.v6
    if own is None:
        raise UnsuitableError("this fault needs IPv6 in the Fabric (addressing.ipv6)")
    leaf, end = at.find_leaf_end()
    at.send(delete_address(at.build_address(own)))
    send_messages(at.lab, leaf, add_address(Address(end.index, socket.AF_INET6, own.address, 128, flags=_NODAD)))
    at.send(add_address(at.build_address(own)))
    _wait_for_dad(at)


_NODAD = 0x02
"""IFA_F_NODAD of include/uapi/linux/if_addr.h."""
_DAD_SECONDS = 4.0


def _wait_for_dad(at: FaultTarget) -> None:
    """Duplicate detection takes about a second (RFC 4862); come back when it has judged."""
    import time  # noqa: PLC0415 - one use

    from trackbed.kernel.netlink.addresses import IFA_F_TENTATIVE, list_addresses  # noqa: PLC0415 - one use

    deadline = time.monotonic() + _DAD_SECONDS
    with Socket(netns=at.lab.locate_netns(at.node.name)) as sock:
        while time.monotonic() < deadline:
            found = [a for a in list_addresses(sock, socket.AF_INET6) if at.port.v6 and a.address == at.port.v6.address]
            if found and (not found[0].flags & IFA_F_TENTATIVE or found[0].flags & _DADFAILED):
                return
            time.sleep(0.05)


_DADFAILED = 0x08


def _dad_gone(at: FaultTarget) -> None:
    own = at.port.v6
    if own is None:
        return
    leaf, end = at.find_leaf_end()
    send_messages(at.lab, leaf, delete_address(Address(end.index, socket.AF_INET6, own.address, 128)))
    at.send(delete_address(at.build_address(own)))


def _mtu(at: FaultTarget) -> None:
    at.send(set_link(at.read_link().index, mtu=1500))


def _down(at: FaultTarget) -> None:
    at.send(set_link(at.read_link().index, up=False))


def _carrier(at: FaultTarget) -> None:
    leaf, end = at.find_leaf_end()
    send_messages(at.lab, leaf, set_link(end.index, up=False))


def _flux(at: FaultTarget) -> None:
    at.write_sysctl("net/ipv4/conf/{}/arp_ignore", "0")
    at.write_sysctl("net/ipv4/conf/{}/arp_announce", "0")


def _silent_gateway(at: FaultTarget) -> None:
    """The leaf has the address but answers no ARP (arp_ignore=8: for no local address)."""
    leaf, end = at.find_leaf_end()
    if not at.addressing.gateway:
        raise UnsuitableError("this fault needs a scheme with gateways")
    write_sysctl(at.lab, leaf, f"net/ipv4/conf/{end.name}/arp_ignore", "8")
    forget(at)


def _answering_gateway(at: FaultTarget) -> None:
    leaf, end = at.find_leaf_end()
    write_sysctl(at.lab, leaf, f"net/ipv4/conf/{end.name}/arp_ignore", "0")
    forget(at)


def forget(at: FaultTarget) -> None:
    """Empty the neighbour table of the port, so that the gateway is asked anew."""
    index = at.read_link().index
    with Socket(netns=at.lab.locate_netns(at.node.name)) as sock:
        known = [n for n in list_neighbours(sock, socket.AF_INET) if n.index == index]
        sock.send([delete_neighbour(n) for n in known])


def _router(at: FaultTarget) -> None:
    at.write_sysctl("net/ipv6/conf/{}/accept_ra", "1")


def _file_lost(at: FaultTarget) -> None:
    for path in at.lab.get_machine(at.node.name).path("/etc").rglob("*trackbed*"):
        if path.is_file():
            path.unlink()


FAULTS = (
    LabFault("addr-missing", _missing),
    LabFault("addr-prefix-length-wrong", _prefix),
    LabFault("addr-unplanned-extra", _extra, _extra_gone),
    LabFault("addr-duplicate-on-rail", _duplicate, _duplicate_gone),
    LabFault("addr-same-on-two-local-ports", _two_ports, _one_port),
    LabFault("addr-docker0-overlap", _docker, _docker_gone),
    LabFault("addr-pod-cidr-overlap", _pod_route, _pod_route_gone),
    LabFault("addr-ipv6-dad-failed", _dad, _dad_gone),
    LabFault("addr-mtu-wrong", _mtu),
    LabFault("addr-link-admin-down", _down),
    LabFault("addr-no-carrier", _carrier),
    LabFault("addr-arp-flux", _flux),
    LabFault("addr-neighbour-failed", _silent_gateway, _answering_gateway),
    LabFault("addr-router-advertisement-default", _router),
    LabFault("addr-not-persistent", _file_lost),
)
