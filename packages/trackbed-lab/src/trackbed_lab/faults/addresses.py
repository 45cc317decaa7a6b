"""Faults of the step addresses."""

import socket
import time

from trackbed.kernel.netlink.addresses import (
    IFA_F_DADFAILED,
    IFA_F_NODAD,
    IFA_F_TENTATIVE,
    Address,
    build_add_address,
    build_delete_address,
    list_addresses,
)
from trackbed.kernel.netlink.links import (
    VethEnd,
    build_create_bridge,
    build_create_veth,
    build_delete_link,
    build_set_link,
)
from trackbed.kernel.netlink.neighbours import build_delete_neighbour, list_neighbours
from trackbed.kernel.netlink.routes import RT_SCOPE_LINK, Route, build_add_route
from trackbed.kernel.netlink.sockets import Socket
from trackbed_lab.faults.fault import LabFault
from trackbed_lab.faults.target import FaultTarget, UnsuitableError, read_link, send_messages, write_sysctl

_UNPLANNED = 10 << 24 | 99 << 16 | 1
"""10.99.0.1, which is in no example's plan."""
_DOCKER_BITS = 8
_DAD_SECONDS = 60.0


def _delete_addresses(target: FaultTarget) -> None:
    target.send_messages(
        *(build_delete_address(target.build_address(addressing)) for addressing in target.port.addresses)
    )


def _change_prefix(target: FaultTarget) -> None:
    planned = target.addressing.prefix
    prefix = planned - 7 if planned > 24 else planned + 1  # noqa: PLR2004 - a /31 becomes a /24
    target.send_messages(
        build_delete_address(target.build_address()), build_add_address(target.build_address(prefix_length=prefix))
    )


def _add_unplanned(target: FaultTarget) -> None:
    target.send_messages(build_add_address(_build_unplanned(target)))


def _delete_unplanned(target: FaultTarget) -> None:
    target.send_messages(build_delete_address(_build_unplanned(target)))


def _build_unplanned(target: FaultTarget) -> Address:
    return Address(target.read_link().index, socket.AF_INET, _UNPLANNED, 24)


def _build_duplicate(target: FaultTarget) -> Address:
    """Return the port's address for the peer's port on the same rail."""
    port = target.peer.find_port(target.port.rail)
    link = read_link(target.lab, target.peer.name, port.netdev if port else "")
    return target.build_address(link_index=link.index, prefix_length=32)


def _add_duplicate(target: FaultTarget) -> None:
    send_messages(target.lab, target.peer.name, build_add_address(_build_duplicate(target)))


def _delete_duplicate(target: FaultTarget) -> None:
    send_messages(target.lab, target.peer.name, build_delete_address(_build_duplicate(target)))


def _build_second_address(target: FaultTarget) -> Address:
    """Return the port's address for the port of the next rail."""
    return target.build_address(link_index=target.read_link(target.next_rail_port.netdev).index, prefix_length=32)


def _add_to_second_port(target: FaultTarget) -> None:
    target.send_messages(build_add_address(_build_second_address(target)))


def _delete_from_second_port(target: FaultTarget) -> None:
    target.send_messages(build_delete_address(_build_second_address(target)))


def _add_docker_bridge(target: FaultTarget) -> None:
    """Create Docker's bridge with a range at the end of the rail's."""
    target.send_messages(build_create_bridge("docker0"))
    subnet = target.node.common.rails[target.port.rail].v4
    if subnet is None:
        raise UnsuitableError("this fault needs IPv4 in the Fabric")
    index = target.read_link("docker0").index
    address = Address(index, socket.AF_INET, subnet.last - 1, 32 - _DOCKER_BITS)
    target.send_messages(build_set_link(index, up=True), build_add_address(address))


def _delete_docker_bridge(target: FaultTarget) -> None:
    target.send_messages(build_delete_link(target.read_link("docker0").index))


def _add_pod_route(target: FaultTarget) -> None:
    """Add a route within the rail's range through an interface with a name like those of Calico's pod interfaces."""
    target.send_messages(build_create_veth(VethEnd("cali0123456789a"), VethEnd("lost")))
    subnet = target.node.common.rails[target.port.rail].v4
    if subnet is None:
        raise UnsuitableError("this fault needs IPv4 in the Fabric")
    index = target.read_link("cali0123456789a").index
    route = Route(socket.AF_INET, 254, subnet.last - 1, 32, index, scope=RT_SCOPE_LINK)
    target.send_messages(build_set_link(index, up=True), build_add_route(route))


def _delete_pod_route(target: FaultTarget) -> None:
    target.send_messages(build_delete_link(target.read_link("cali0123456789a").index))


def _provoke_dad_failure(target: FaultTarget) -> None:
    """Give the leaf the host's IPv6 address, then let the host add it again."""
    addressing = target.port.v6
    if addressing is None:
        raise UnsuitableError("this fault needs IPv6 in the Fabric (addressing.ipv6)")
    leaf, end = target.find_leaf_end()
    target.send_messages(build_delete_address(target.build_address(addressing)))
    duplicate = Address(end.index, socket.AF_INET6, addressing.address, 128, flags=IFA_F_NODAD)
    send_messages(target.lab, leaf, build_add_address(duplicate))
    target.send_messages(build_add_address(target.build_address(addressing)))
    _wait_for_dad(target, addressing.address)


def _wait_for_dad(target: FaultTarget, address: int) -> None:
    """Wait until duplicate detection of an IPv6 address has ended, which takes about a second (RFC 4862)."""
    deadline = time.monotonic() + _DAD_SECONDS
    with Socket(netns=target.lab.locate_netns(target.node.name)) as sock:
        while not _has_dad_ended(sock, address):
            if time.monotonic() > deadline:
                raise TimeoutError(f"duplicate address detection did not end within {_DAD_SECONDS:.0f} s")
            time.sleep(0.05)


def _has_dad_ended(sock: Socket, address: int) -> bool:
    flags = [item.flags for item in list_addresses(sock, socket.AF_INET6) if item.address == address]
    return bool(flags) and (not flags[0] & IFA_F_TENTATIVE or bool(flags[0] & IFA_F_DADFAILED))


def _resolve_dad_failure(target: FaultTarget) -> None:
    addressing = target.port.v6
    if addressing is None:
        return
    leaf, end = target.find_leaf_end()
    send_messages(target.lab, leaf, build_delete_address(Address(end.index, socket.AF_INET6, addressing.address, 128)))
    target.send_messages(build_delete_address(target.build_address(addressing)))


def _lower_mtu(target: FaultTarget) -> None:
    target.send_messages(build_set_link(target.read_link().index, mtu=1500))


def _set_port_down(target: FaultTarget) -> None:
    target.send_messages(build_set_link(target.read_link().index, up=False))


def _drop_carrier(target: FaultTarget) -> None:
    leaf, end = target.find_leaf_end()
    send_messages(target.lab, leaf, build_set_link(end.index, up=False))


def _allow_arp_flux(target: FaultTarget) -> None:
    target.write_sysctl("net/ipv4/conf/{}/arp_ignore", "0")
    target.write_sysctl("net/ipv4/conf/{}/arp_announce", "0")


def _silence_gateway(target: FaultTarget) -> None:
    """Stop the leaf from answering ARP requests while it keeps the gateway address (arp_ignore=8)."""
    leaf, end = target.find_leaf_end()
    if not target.addressing.gateway:
        raise UnsuitableError("this fault needs a scheme with gateways")
    write_sysctl(target.lab, leaf, f"net/ipv4/conf/{end.name}/arp_ignore", "8")
    flush_neighbours_of_port(target)


def _unsilence_gateway(target: FaultTarget) -> None:
    leaf, end = target.find_leaf_end()
    write_sysctl(target.lab, leaf, f"net/ipv4/conf/{end.name}/arp_ignore", "0")
    flush_neighbours_of_port(target)


def flush_neighbours_of_port(target: FaultTarget) -> None:
    """Empty the neighbour table of the port, so that the gateway is resolved again."""
    index = target.read_link().index
    with Socket(netns=target.lab.locate_netns(target.node.name)) as sock:
        neighbours = [neighbour for neighbour in list_neighbours(sock, socket.AF_INET) if neighbour.index == index]
        sock.send([build_delete_neighbour(neighbour) for neighbour in neighbours])


def _accept_router_advertisements(target: FaultTarget) -> None:
    target.write_sysctl("net/ipv6/conf/{}/accept_ra", "1")


def _delete_files(target: FaultTarget) -> None:
    for path in target.lab.get_machine(target.node.name).locate("/etc").rglob("*trackbed*"):
        if path.is_file():
            path.unlink()


ON_HOST = True

FAULTS = (
    LabFault("addr-missing", _delete_addresses),
    LabFault("addr-prefix-length-wrong", _change_prefix),
    LabFault("addr-unplanned-extra", _add_unplanned, _delete_unplanned),
    LabFault("addr-duplicate-on-rail", _add_duplicate, _delete_duplicate),
    LabFault("addr-same-on-two-local-ports", _add_to_second_port, _delete_from_second_port),
    LabFault("addr-docker0-overlap", _add_docker_bridge, _delete_docker_bridge),
    LabFault("addr-pod-cidr-overlap", _add_pod_route, _delete_pod_route),
    LabFault("addr-ipv6-dad-failed", _provoke_dad_failure, _resolve_dad_failure),
    LabFault("addr-mtu-wrong", _lower_mtu),
    LabFault("addr-link-admin-down", _set_port_down),
    LabFault("addr-no-carrier", _drop_carrier),
    LabFault("addr-arp-flux", _allow_arp_flux),
    LabFault("addr-neighbour-failed", _silence_gateway, _unsilence_gateway),
    LabFault("addr-router-advertisement-default", _accept_router_advertisements),
    LabFault("addr-not-persistent", _delete_files),
)
