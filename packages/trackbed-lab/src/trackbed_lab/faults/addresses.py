"""Faults of the step addresses."""

from __future__ import annotations

import socket

from trackbed.kernel.netlink.addresses import Address, add_address, delete_address
from trackbed.kernel.netlink.links import VethEnd, create_bridge, create_veth, delete_link, set_link
from trackbed.kernel.netlink.neighbours import delete_neighbour, list_neighbours
from trackbed.kernel.netlink.routes import RT_SCOPE_LINK, Route, add_route
from trackbed.kernel.netlink.sockets import Socket
from trackbed_lab.faults.fault import Fault
from trackbed_lab.faults.place import Place, UnsuitableError, do, link, set_sysctl

_STRANGE = 10 << 24 | 99 << 16 | 1
"""10.99.0.1: an address that no example plans."""
_DOCKER_BITS = 8


def _missing(at: Place) -> None:
    at.do(*(delete_address(at.address(own)) for own in at.port.addressed))


def _prefix(at: Place) -> None:
    own = at.own
    wrong = own.prefix - 7 if own.prefix > 24 else own.prefix + 1  # noqa: PLR2004 - a /31 becomes a /24
    at.do(delete_address(at.address()), add_address(at.address(prefix=wrong)))


def _extra(at: Place) -> None:
    at.do(add_address(_strange(at)))


def _extra_gone(at: Place) -> None:
    at.do(delete_address(_strange(at)))


def _strange(at: Place) -> Address:
    return Address(at.link().index, socket.AF_INET, _STRANGE, 24)


def _stolen(at: Place) -> Address:
    port = at.peer.port(at.port.rail)
    theirs = link(at.site, at.peer.name, port.netdev if port else "")
    return at.address(index=theirs.index, prefix=32)


def _duplicate(at: Place) -> None:
    do(at.site, at.peer.name, add_address(_stolen(at)))


def _duplicate_gone(at: Place) -> None:
    do(at.site, at.peer.name, delete_address(_stolen(at)))


def _second_port(at: Place) -> Address:
    return at.address(index=at.link(at.neighbour.netdev).index, prefix=32)


def _two_ports(at: Place) -> None:
    at.do(add_address(_second_port(at)))


def _one_port(at: Place) -> None:
    at.do(delete_address(_second_port(at)))


def _docker(at: Place) -> None:
    """A bridge whose range lies at the end of the rail's."""
    at.do(create_bridge("docker0"))
    cut = at.node.common.rails[at.port.rail].v4
    if cut is None:
        raise UnsuitableError("this fault needs IPv4 in the Fabric")
    index = at.link("docker0").index
    at.do(set_link(index, up=True), add_address(Address(index, socket.AF_INET, cut.last - 1, 32 - _DOCKER_BITS)))


def _docker_gone(at: Place) -> None:
    at.do(delete_link(at.link("docker0").index))


def _pod_route(at: Place) -> None:
    at.do(create_veth(VethEnd("cali0123456789a"), VethEnd("lost")))
    cut = at.node.common.rails[at.port.rail].v4
    if cut is None:
        raise UnsuitableError("this fault needs IPv4 in the Fabric")
    index = at.link("cali0123456789a").index
    route = Route(socket.AF_INET, 254, cut.last - 1, 32, index, scope=RT_SCOPE_LINK)
    at.do(set_link(index, up=True), add_route(route))


def _pod_route_gone(at: Place) -> None:
    at.do(delete_link(at.link("cali0123456789a").index))


def _dad(at: Place) -> None:
    """The leaf takes the host's IPv6 address before the host asks for it again."""
    own = at.port.v6
    if own is None:
        raise UnsuitableError("this fault needs IPv6 in the Fabric (addressing.ipv6)")
    leaf, end = at.at_leaf()
    at.do(delete_address(at.address(own)))
    do(at.site, leaf, add_address(Address(end.index, socket.AF_INET6, own.address, 128, flags=_NODAD)))
    at.do(add_address(at.address(own)))
    _wait_for_dad(at)


_NODAD = 0x02
"""IFA_F_NODAD of include/uapi/linux/if_addr.h."""
_DAD_SECONDS = 4.0


def _wait_for_dad(at: Place) -> None:
    """Duplicate detection takes about a second (RFC 4862); come back when it has judged."""
    import time  # noqa: PLC0415 - one use

    from trackbed.kernel.netlink.addresses import IFA_F_TENTATIVE, list_addresses  # noqa: PLC0415 - one use

    deadline = time.monotonic() + _DAD_SECONDS
    with Socket(netns=at.site.netns(at.node.name)) as sock:
        while time.monotonic() < deadline:
            found = [a for a in list_addresses(sock, socket.AF_INET6) if at.port.v6 and a.address == at.port.v6.address]
            if found and (not found[0].flags & IFA_F_TENTATIVE or found[0].flags & _DADFAILED):
                return
            time.sleep(0.05)


_DADFAILED = 0x08


def _dad_gone(at: Place) -> None:
    own = at.port.v6
    if own is None:
        return
    leaf, end = at.at_leaf()
    do(at.site, leaf, delete_address(Address(end.index, socket.AF_INET6, own.address, 128)))
    at.do(delete_address(at.address(own)))


def _mtu(at: Place) -> None:
    at.do(set_link(at.link().index, mtu=1500))


def _down(at: Place) -> None:
    at.do(set_link(at.link().index, up=False))


def _carrier(at: Place) -> None:
    leaf, end = at.at_leaf()
    do(at.site, leaf, set_link(end.index, up=False))


def _flux(at: Place) -> None:
    at.sysctl("net/ipv4/conf/{}/arp_ignore", "0")
    at.sysctl("net/ipv4/conf/{}/arp_announce", "0")


def _silent_gateway(at: Place) -> None:
    """The leaf has the address but answers no ARP (arp_ignore=8: for no local address)."""
    leaf, end = at.at_leaf()
    if not at.own.gateway:
        raise UnsuitableError("this fault needs a scheme with gateways")
    set_sysctl(at.site, leaf, f"net/ipv4/conf/{end.name}/arp_ignore", "8")
    forget(at)


def _answering_gateway(at: Place) -> None:
    leaf, end = at.at_leaf()
    set_sysctl(at.site, leaf, f"net/ipv4/conf/{end.name}/arp_ignore", "0")
    forget(at)


def forget(at: Place) -> None:
    """Empty the neighbour table of the port, so that the gateway is asked anew."""
    index = at.link().index
    with Socket(netns=at.site.netns(at.node.name)) as sock:
        known = [n for n in list_neighbours(sock, socket.AF_INET) if n.index == index]
        sock.send([delete_neighbour(n) for n in known])


def _router(at: Place) -> None:
    at.sysctl("net/ipv6/conf/{}/accept_ra", "1")


def _file_lost(at: Place) -> None:
    for path in at.site.machine(at.node.name).path("/etc").rglob("*trackbed*"):
        if path.is_file():
            path.unlink()


FAULTS = (
    Fault("addr-missing", _missing),
    Fault("addr-prefix-length-wrong", _prefix),
    Fault("addr-unplanned-extra", _extra, _extra_gone),
    Fault("addr-duplicate-on-rail", _duplicate, _duplicate_gone),
    Fault("addr-same-on-two-local-ports", _two_ports, _one_port),
    Fault("addr-docker0-overlap", _docker, _docker_gone),
    Fault("addr-pod-cidr-overlap", _pod_route, _pod_route_gone),
    Fault("addr-ipv6-dad-failed", _dad, _dad_gone),
    Fault("addr-mtu-wrong", _mtu),
    Fault("addr-link-admin-down", _down),
    Fault("addr-no-carrier", _carrier),
    Fault("addr-arp-flux", _flux),
    Fault("addr-neighbour-failed", _silent_gateway, _answering_gateway),
    Fault("addr-router-advertisement-default", _router),
    Fault("addr-not-persistent", _file_lost),
)
