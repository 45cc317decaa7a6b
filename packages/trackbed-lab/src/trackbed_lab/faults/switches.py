"""Faults of the fabric and its switches, and of the Fabric file itself."""

from __future__ import annotations

import re
import socket
import time
from dataclasses import replace

from trackbed.fabric.model.ranges import BITS, Range
from trackbed.kernel.netlink.addresses import delete_address, list_addresses
from trackbed.kernel.netlink.links import set_link
from trackbed.kernel.netlink.routes import RTN_BLACKHOLE, Route, delete_route, list_routes, replace_route
from trackbed.kernel.netlink.rules import PolicyRule, add_rule, delete_rule
from trackbed.kernel.netlink.sockets import Socket
from trackbed_lab.faults.addresses import forget
from trackbed_lab.faults.fault import LabFault
from trackbed_lab.faults.target import FaultTarget, UnsuitableError, read_link, send_messages

_BLACKHOLE_TABLE, _EARLY = 700, 100


def _long_names(at: FaultTarget) -> None:
    """The Fabric asks for names that no kernel takes."""
    text = at.lab.fabric_file.read_text(encoding="utf-8")
    wanted = "  names: {netdev: 'rail{rail}-of-the-compute-fabric'}\n"
    text = re.sub(r"(?m)^  names:.*\n((?:    .*\n)*)", "", text, count=1)
    at.lab.fabric_file.write_text(text.replace("\nspec:\n", "\nspec:\n" + wanted, 1), encoding="utf-8")


def _restored(at: FaultTarget) -> None:
    at.lab.restore_fabric()


_CROSSED = "crossed"
"""What the end of a cable is called at the leaf it does not belong to."""


def _ends(at: FaultTarget) -> tuple[tuple[str, str], tuple[str, str]]:
    here = at.lab.find_leaf_end(at.node.name, at.port.rail)
    there = at.lab.find_leaf_end(at.node.name, at.neighbour.rail)
    return here, there


def _carry(at: FaultTarget, from_leaf: str, name: str, to_leaf: str, new_name: str) -> None:
    """Unplug the end of a cable from one leaf and plug it into another."""
    found = read_link(at.lab, from_leaf, name)
    with at.lab.locate_netns(to_leaf).open("rb") as target:
        send_messages(at.lab, from_leaf, set_link(found.index, netns_fd=target.fileno(), name=new_name))
    send_messages(at.lab, to_leaf, set_link(read_link(at.lab, to_leaf, new_name).index, up=True))


def _crossed(at: FaultTarget) -> None:
    """Swap the far ends of two cables of a node."""
    here, there = _ends(at)
    _carry(at, *here, there[0], _CROSSED)
    _carry(at, *there, here[0], _CROSSED)


def _uncrossed(at: FaultTarget) -> None:
    here, there = _ends(at)
    _carry(at, there[0], _CROSSED, *here)
    _carry(at, here[0], _CROSSED, *there)
    at.lab.restore_plan(there[0])


def _mute(at: FaultTarget) -> None:
    at.lab.set_advertisement(*at.lab.find_leaf_end(at.node.name, at.port.rail), "mute")


def _spoken(at: FaultTarget) -> None:
    at.lab.set_advertisement(*at.lab.find_leaf_end(at.node.name, at.port.rail), "")


def _other_vlan(at: FaultTarget) -> None:
    """The leaf port is in VLAN 999: it says so, and nobody of our segment is there."""
    _no_address(at)
    at.lab.set_advertisement(*at.lab.find_leaf_end(at.node.name, at.port.rail), "vlan 999")


def _no_address(at: FaultTarget) -> None:
    leaf, _ = at.find_leaf_end()
    with Socket(netns=at.lab.locate_netns(leaf)) as sock:
        own = [a for a in list_addresses(sock, at.family) if a.address == at.addressing.gateway]
    if not own:
        raise UnsuitableError("this fault needs a scheme with gateways on the leaves")
    send_messages(at.lab, leaf, *(delete_address(a) for a in own))
    forget(at)


def _narrow(at: FaultTarget) -> None:
    """The leaf port falls back to 1500 bytes."""
    leaf, end = at.find_leaf_end()
    send_messages(at.lab, leaf, set_link(end.index, mtu=1500))


def _flapping(at: FaultTarget) -> None:
    """The far end goes away twice; each time the host must see it before it comes back."""
    leaf, end = at.find_leaf_end()
    for _ in range(2):
        send_messages(at.lab, leaf, set_link(end.index, up=False))
        _until(lambda: not at.read_link().carrier)
        send_messages(at.lab, leaf, set_link(end.index, up=True))
        _until(lambda: at.read_link().carrier)


_LINK_SECONDS = 3.0


def _until(happened: object) -> None:
    deadline = time.monotonic() + _LINK_SECONDS
    while callable(happened) and not happened() and time.monotonic() < deadline:
        time.sleep(0.02)


def _far(at: FaultTarget) -> Range:
    """The far peer's address on this rail, as a range."""
    if at.peer.unit == at.node.unit:
        raise UnsuitableError("this fault needs nodes in two scalable units")
    port = at.peer.port(at.port.rail)
    own = port.addressed[0] if port else at.addressing
    return Range(own.version, own.address, BITS[own.version])


def _black_hole(at: FaultTarget) -> None:
    """The spine swallows packets for the peer, without a word."""
    target = _far(at)
    route = Route(at.family, 254, target.base, target.prefix, type=RTN_BLACKHOLE)
    send_messages(at.lab, at.lab.get_spine(), replace_route(route))


def _black_hole_gone(at: FaultTarget) -> None:
    target = _far(at)
    route = Route(at.family, 254, target.base, target.prefix, type=RTN_BLACKHOLE)
    send_messages(at.lab, at.lab.get_spine(), delete_route(route))


def _no_route(at: FaultTarget) -> None:
    """The spine forgets the way to the peer's leaf and says so."""
    target = _far(at)
    with Socket(netns=at.lab.locate_netns(at.lab.get_spine())) as sock:
        held = list_routes(sock, at.family)
    gone = [r for r in held if r.gateway and target.base in Range(target.version, r.dst, r.prefix) and r.prefix]
    send_messages(at.lab, at.lab.get_spine(), *(delete_route(route) for route in gone))


def _policy(at: FaultTarget) -> tuple[Route, PolicyRule]:
    """From this rail to the next one: into a table that swallows everything."""
    mine, other = (at.node.common.rails[p.rail].v4 for p in (at.port, at.neighbour))
    if mine is None or other is None:
        raise UnsuitableError("this fault needs IPv4 in the Fabric")
    if at.node.common.cross_rail != "routed":
        raise UnsuitableError("this fault needs routing.crossRail: routed")
    rule = PolicyRule(socket.AF_INET, _EARLY, _BLACKHOLE_TABLE)
    rule = replace(rule, src=mine.base, src_prefix=mine.prefix, dst=other.base, dst_prefix=other.prefix)
    return Route(socket.AF_INET, _BLACKHOLE_TABLE, type=RTN_BLACKHOLE), rule


def _separated(at: FaultTarget) -> None:
    route, rule = _policy(at)
    send_messages(at.lab, at.lab.get_spine(), replace_route(route), add_rule(rule))


def _joined(at: FaultTarget) -> None:
    route, rule = _policy(at)
    send_messages(at.lab, at.lab.get_spine(), delete_rule(rule), delete_route(route))


FAULTS = (
    LabFault("names-too-long", _long_names, _restored),
    LabFault("fabric-port-on-wrong-leaf", _crossed, _uncrossed),
    LabFault("fabric-lldp-silent", _mute, _spoken),
    LabFault("fabric-mtu-black-hole", _narrow),
    LabFault("fabric-link-flapping", _flapping),
    LabFault("fabric-same-rail-unreachable", _black_hole, _black_hole_gone),
    LabFault("fabric-cross-rail-differs-from-plan", _separated, _joined),
    LabFault("fabric-vlan-or-segment-wrong", _other_vlan, _spoken),
    LabFault("switch-gateway-address-missing", _no_address),
    LabFault("switch-route-missing", _no_route),
)
