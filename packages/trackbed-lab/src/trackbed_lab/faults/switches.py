"""Faults of the fabric and its switches, and of the Fabric file itself."""

import re
import socket
import time
from collections.abc import Callable
from dataclasses import replace

from trackbed.fabric.model.ranges import BITS, Range
from trackbed.kernel.netlink.addresses import build_delete_address, list_addresses
from trackbed.kernel.netlink.links import build_set_link
from trackbed.kernel.netlink.routes import RTN_BLACKHOLE, Route, build_delete_route, build_replace_route, list_routes
from trackbed.kernel.netlink.rules import PolicyRule, build_add_rule, build_delete_rule
from trackbed.kernel.netlink.sockets import Socket
from trackbed_lab.faults.addresses import flush_neighbours_of_port
from trackbed_lab.faults.fault import LabFault
from trackbed_lab.faults.target import FaultTarget, TargetLab, UnsuitableError, read_link, send_messages

_BLACKHOLE_TABLE, _EARLY = 700, 100


def _lengthen_names(target: FaultTarget) -> None:
    """Change the Fabric's interface names to ones that are too long for the kernel."""
    text = target.lab.fabric_file.read_text(encoding="utf-8")
    names = "  names: {netdev: 'rail{rail}-of-the-compute-fabric'}\n"
    text = re.sub(r"(?m)^  names:.*\n((?:    .*\n)*)", "", text, count=1)
    target.lab.fabric_file.write_text(text.replace("\nspec:\n", "\nspec:\n" + names, 1), encoding="utf-8")


def _restore_fabric(target: FaultTarget) -> None:
    target.lab.restore_fabric()


_CROSSED = "crossed"
"""Interface name of a cable's end at the wrong leaf."""


def _find_cable_ends(target: FaultTarget) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return leaf and interface of the port's cable, and of the next rail's."""
    near = target.lab.find_leaf_end(target.node.name, target.port.rail)
    far = target.lab.find_leaf_end(target.node.name, target.next_rail_port.rail)
    return near, far


def _move_cable_end(lab: TargetLab, from_leaf: str, name: str, to_leaf: str, new_name: str) -> None:
    """Unplug the end of a cable from one leaf and plug it into another."""
    link = read_link(lab, from_leaf, name)
    with lab.locate_netns(to_leaf).open("rb") as netns:
        send_messages(lab, from_leaf, build_set_link(link.index, netns_fd=netns.fileno(), name=new_name))
    send_messages(lab, to_leaf, build_set_link(read_link(lab, to_leaf, new_name).index, up=True))


def _cross_cables(target: FaultTarget) -> None:
    """Swap the leaf ends of two cables of a node."""
    near, far = _find_cable_ends(target)
    _move_cable_end(target.lab, *near, far[0], _CROSSED)
    _move_cable_end(target.lab, *far, near[0], _CROSSED)


def _uncross_cables(target: FaultTarget) -> None:
    near, far = _find_cable_ends(target)
    _move_cable_end(target.lab, far[0], _CROSSED, *near)
    _move_cable_end(target.lab, near[0], _CROSSED, *far)
    target.lab.restore_plan(far[0])


def _mute_lldp(target: FaultTarget) -> None:
    target.lab.set_advertisement(*target.lab.find_leaf_end(target.node.name, target.port.rail), "mute")


def _unmute_lldp(target: FaultTarget) -> None:
    target.lab.set_advertisement(*target.lab.find_leaf_end(target.node.name, target.port.rail), "")


def _change_vlan(target: FaultTarget) -> None:
    """Make the leaf's port look like a port in VLAN 999: it advertises the VLAN and has no gateway address."""
    _delete_gateway_address(target)
    target.lab.set_advertisement(*target.lab.find_leaf_end(target.node.name, target.port.rail), "vlan 999")


def _delete_gateway_address(target: FaultTarget) -> None:
    leaf, _ = target.find_leaf_end()
    with Socket(netns=target.lab.locate_netns(leaf)) as sock:
        addresses = list_addresses(sock, target.family)
    gateways = [address for address in addresses if address.address == target.addressing.gateway]
    if not gateways:
        raise UnsuitableError("this fault needs a scheme with gateways on the leaves")
    send_messages(target.lab, leaf, *map(build_delete_address, gateways))
    flush_neighbours_of_port(target)


def _lower_leaf_mtu(target: FaultTarget) -> None:
    """Set the MTU of the leaf's port to 1500 bytes."""
    leaf, end = target.find_leaf_end()
    send_messages(target.lab, leaf, build_set_link(end.index, mtu=1500))


def _flap_leaf_port(target: FaultTarget) -> None:
    """Set the leaf's port down and up twice; wait after each change until the host has noticed it."""
    leaf, end = target.find_leaf_end()
    for _ in range(2):
        send_messages(target.lab, leaf, build_set_link(end.index, up=False))
        _wait_until(lambda: not target.read_link().carrier)
        send_messages(target.lab, leaf, build_set_link(end.index, up=True))
        _wait_until(lambda: target.read_link().carrier)


_LINK_SECONDS = 60.0
"""Limit for the kernel's link watch, which takes a second where nothing else runs."""


def _wait_until(condition: Callable[[], bool | None]) -> None:
    deadline = time.monotonic() + _LINK_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the port's carrier did not change within {_LINK_SECONDS:.0f} s")
        time.sleep(0.02)


def _find_peer_address(target: FaultTarget) -> Range:
    """Return the address on this rail of a peer in another scalable unit, as a range."""
    if target.peer.unit == target.node.unit:
        raise UnsuitableError("this fault needs nodes in two scalable units")
    port = target.peer.find_port(target.port.rail)
    addressing = port.addresses[0] if port else target.addressing
    return Range(addressing.version, addressing.address, BITS[addressing.version])


def _build_black_hole(target: FaultTarget) -> Route:
    """Return a route that drops packets for the peer silently."""
    peer = _find_peer_address(target)
    return Route(target.family, 254, peer.base, peer.prefix, type=RTN_BLACKHOLE)


def _add_black_hole(target: FaultTarget) -> None:
    send_messages(target.lab, target.lab.get_spine(), build_replace_route(_build_black_hole(target)))


def _delete_black_hole(target: FaultTarget) -> None:
    send_messages(target.lab, target.lab.get_spine(), build_delete_route(_build_black_hole(target)))


def _delete_spine_routes(target: FaultTarget) -> None:
    """Delete the spine's routes to the peer's leaf; the spine then reports the peer as unreachable."""
    peer, spine = _find_peer_address(target), target.lab.get_spine()
    with Socket(netns=target.lab.locate_netns(spine)) as sock:
        routes = [route for route in list_routes(sock, target.family) if route.gateway and route.prefix]
    covering = [route for route in routes if peer.base in Range(peer.version, route.dst, route.prefix)]
    send_messages(target.lab, spine, *map(build_delete_route, covering))


def _build_policy(target: FaultTarget) -> tuple[Route, PolicyRule]:
    """Return a blackhole route, and a rule that directs packets from this rail to the next one to its table."""
    source, destination = (target.node.common.rails[port.rail].v4 for port in (target.port, target.next_rail_port))
    if source is None or destination is None:
        raise UnsuitableError("this fault needs IPv4 in the Fabric")
    if target.node.common.cross_rail != "routed":
        raise UnsuitableError("this fault needs routing.crossRail: routed")
    rule = PolicyRule(socket.AF_INET, _EARLY, _BLACKHOLE_TABLE)
    rule = replace(rule, src=source.base, src_prefix=source.prefix, dst=destination.base, dst_prefix=destination.prefix)
    return Route(socket.AF_INET, _BLACKHOLE_TABLE, type=RTN_BLACKHOLE), rule


def _separate_rails(target: FaultTarget) -> None:
    route, rule = _build_policy(target)
    send_messages(target.lab, target.lab.get_spine(), build_replace_route(route), build_add_rule(rule))


def _join_rails(target: FaultTarget) -> None:
    route, rule = _build_policy(target)
    send_messages(target.lab, target.lab.get_spine(), build_delete_rule(rule), build_delete_route(route))


ON_HOST = False

FAULTS = (
    LabFault("names-too-long", _lengthen_names, _restore_fabric),
    LabFault("fabric-port-on-wrong-leaf", _cross_cables, _uncross_cables),
    LabFault("fabric-lldp-silent", _mute_lldp, _unmute_lldp),
    LabFault("fabric-mtu-black-hole", _lower_leaf_mtu),
    LabFault("fabric-link-flapping", _flap_leaf_port),
    LabFault("fabric-same-rail-unreachable", _add_black_hole, _delete_black_hole),
    LabFault("fabric-cross-rail-differs-from-plan", _separate_rails, _join_rails),
    LabFault("fabric-vlan-or-segment-wrong", _change_vlan, _unmute_lldp),
    LabFault("switch-gateway-address-missing", _delete_gateway_address),
    LabFault("switch-route-missing", _delete_spine_routes),
)
