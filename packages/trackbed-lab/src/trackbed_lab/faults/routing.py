"""Faults of the step routing."""

from __future__ import annotations

import socket
from dataclasses import replace

from trackbed.fabric.model.ranges import BITS
from trackbed.fabric.plan.routes import MAIN_TABLE
from trackbed.kernel.netlink.links import set_link
from trackbed.kernel.netlink.routes import (
    RT_SCOPE_LINK,
    RTN_UNICAST,
    Route,
    add_route,
    append_route,
    delete_route,
    replace_route,
)
from trackbed.kernel.netlink.rules import PolicyRule, add_rule, delete_rule
from trackbed.kernel.wire import nftables
from trackbed_lab.faults.fault import LabFault
from trackbed_lab.faults.target import FaultTarget, UnsuitableError

_EARLY = 500
"""A priority before ours, as other programs take it."""
_FIREWALL = "lab-firewall"
_STRANGE = 10 << 24 | 99 << 16
"""10.99.0.0: a destination that no example plans."""


def _ours(at: FaultTarget) -> PolicyRule:
    own = at.addressing
    for rule in at.list_rules():
        if (rule.src, rule.src_prefix) == (own.address, BITS[own.version]):
            return rule
    raise UnsuitableError(f"{at.node.name} has no rule for {own}; apply first")


def _no_rule(at: FaultTarget) -> None:
    at.send(delete_rule(_ours(at)))


def _other_table(at: FaultTarget) -> None:
    rule = _ours(at)
    table = at.node.common.rails[at.neighbour.rail].table
    at.send(delete_rule(rule), add_rule(replace(rule, table=table)))


def _empty(at: FaultTarget) -> None:
    at.send(*(delete_route(route) for route in at.list_routes(at.table)))


def _flap(at: FaultTarget) -> None:
    index = at.read_link().index
    at.send(set_link(index, up=False))
    at.send(set_link(index, up=True))


def _shadow(at: FaultTarget) -> PolicyRule:
    return PolicyRule(at.family, _EARLY, MAIN_TABLE)


def _shadowed(at: FaultTarget) -> None:
    at.send(add_rule(_shadow(at)))


def _unshadowed(at: FaultTarget) -> None:
    at.send(delete_rule(_shadow(at)))


def _strict(at: FaultTarget) -> None:
    at.write_sysctl("net/ipv4/conf/{}/rp_filter", "1")


def _default(at: FaultTarget) -> Route:
    own = at.addressing
    return Route(at.family, MAIN_TABLE, 0, 0, at.read_link().index, own.gateway, own.address, metric=50)


def _default_on_rail(at: FaultTarget) -> None:
    at.send(add_route(_default(at)))


def _default_gone(at: FaultTarget) -> None:
    at.send(delete_route(_default(at)))


def _unfenced(at: FaultTarget) -> None:
    fences = [rule for rule in at.list_rules() if rule.invert]
    at.send(*(delete_rule(rule) for rule in fences))


def _second_connected(at: FaultTarget) -> Route:
    subnet = at.addressing.subnet
    other = at.read_link(at.neighbour.netdev).index
    return Route(at.family, MAIN_TABLE, subnet.base, subnet.prefix, other, scope=RT_SCOPE_LINK)


def _two_connected(at: FaultTarget) -> None:
    at.send(append_route(_second_connected(at)))


def _one_connected(at: FaultTarget) -> None:
    at.send(delete_route(_second_connected(at)))


def _routed(at: FaultTarget) -> list[Route]:
    found = [route for route in at.list_routes(at.table) if route.gateway]
    if not found:
        raise UnsuitableError("this fault needs a scheme with gateways")
    return found


def _no_supernet(at: FaultTarget) -> None:
    at.send(*(delete_route(route) for route in _routed(at)))


def _strange_gateway(at: FaultTarget) -> None:
    other = at.neighbour.addressed[0].gateway
    for route in _routed(at):
        at.send(delete_route(route), add_route(replace(route, gateway=other, onlink=True)))


def _dead_link(at: FaultTarget) -> None:
    from trackbed_lab.faults.addresses import FAULTS as ADDRESSES  # noqa: PLC0415 - the same break, seen by its routes

    next(fault for fault in ADDRESSES if fault.id == "addr-no-carrier").inject(at)


def _wrong_source(at: FaultTarget) -> None:
    other = at.neighbour.addressed[0].address
    routes = [route for route in at.list_routes(at.table) if route.type == RTN_UNICAST]
    at.send(*(replace_route(replace(route, prefsrc=other)) for route in routes))


def _foreign(at: FaultTarget) -> Route:
    return Route(socket.AF_INET, at.table, _STRANGE, 24, at.read_link("eth0").index, scope=RT_SCOPE_LINK)


def _shared_table(at: FaultTarget) -> None:
    at.send(add_route(_foreign(at)))


def _own_table(at: FaultTarget) -> None:
    at.send(delete_route(_foreign(at)))


def _firewall(at: FaultTarget) -> None:
    nftables.add_drop_chain(at.lab.locate_netns(at.node.name), _FIREWALL, "input", "input", 2.0)


def _no_firewall(at: FaultTarget) -> None:
    nftables.delete_table(at.lab.locate_netns(at.node.name), _FIREWALL, 2.0)


FAULTS = (
    LabFault("route-rule-missing", _no_rule),
    LabFault("route-rule-wrong-table", _other_table),
    LabFault("route-table-empty", _empty),
    LabFault("route-table-flushed-by-link-down", _flap),
    LabFault("route-rule-shadowed", _shadowed, _unshadowed),
    LabFault("route-rp-filter-strict", _strict),
    LabFault("route-default-through-rail", _default_on_rail, _default_gone),
    LabFault("route-host-traffic-on-rail", _unfenced),
    LabFault("route-two-connected-for-one-subnet", _two_connected, _one_connected),
    LabFault("route-supernet-missing", _no_supernet),
    LabFault("route-gateway-not-on-link", _strange_gateway),
    LabFault("route-linkdown-kept", _dead_link),
    LabFault("route-source-hint-wrong", _wrong_source),
    LabFault("route-table-id-shared", _shared_table, _own_table),
    LabFault("route-firewall-drops-rails", _firewall, _no_firewall),
)
