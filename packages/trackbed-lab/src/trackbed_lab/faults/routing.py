"""Faults of the step routing."""

import socket
from dataclasses import replace

from trackbed.fabric.model.ranges import BITS
from trackbed.fabric.plan.routes import MAIN_TABLE
from trackbed.kernel.netlink.links import build_set_link
from trackbed.kernel.netlink.routes import (
    RT_SCOPE_LINK,
    RTN_UNICAST,
    Route,
    build_add_route,
    build_append_route,
    build_delete_route,
    build_replace_route,
)
from trackbed.kernel.netlink.rules import PolicyRule, build_add_rule, build_delete_rule
from trackbed.kernel.wire import nftables
from trackbed_lab.faults.fault import LabFault
from trackbed_lab.faults.target import FaultTarget, UnsuitableError

_EARLY_PRIORITY = 500
"""A rule priority before those of the plan, such as other programs may choose."""
_FIREWALL = "lab-firewall"
_UNPLANNED = 10 << 24 | 99 << 16
"""10.99.0.0, which is in no example's plan."""


def _find_rule(target: FaultTarget) -> PolicyRule:
    """Return the rule of the port's address."""
    addressing = target.addressing
    for rule in target.read_rules():
        if (rule.src, rule.src_prefix) == (addressing.address, BITS[addressing.version]):
            return rule
    raise UnsuitableError(f"{target.node.name} has no rule for {addressing}; apply first")


def _delete_port_rule(target: FaultTarget) -> None:
    target.send_messages(build_delete_rule(_find_rule(target)))


def _redirect_rule(target: FaultTarget) -> None:
    rule = _find_rule(target)
    table = target.node.common.rails[target.next_rail_port.rail].table
    target.send_messages(build_delete_rule(rule), build_add_rule(replace(rule, table=table)))


def _empty_table(target: FaultTarget) -> None:
    target.send_messages(*(build_delete_route(route) for route in target.read_routes(target.table)))


def _flap_port(target: FaultTarget) -> None:
    index = target.read_link().index
    target.send_messages(build_set_link(index, up=False))
    target.send_messages(build_set_link(index, up=True))


def _build_shadow_rule(target: FaultTarget) -> PolicyRule:
    return PolicyRule(target.family, _EARLY_PRIORITY, MAIN_TABLE)


def _shadow_rules(target: FaultTarget) -> None:
    target.send_messages(build_add_rule(_build_shadow_rule(target)))


def _unshadow_rules(target: FaultTarget) -> None:
    target.send_messages(build_delete_rule(_build_shadow_rule(target)))


def _enable_strict_filter(target: FaultTarget) -> None:
    target.write_sysctl("net/ipv4/conf/{}/rp_filter", "1")


def _build_default_route(target: FaultTarget) -> Route:
    gateway, source = target.addressing.gateway, target.addressing.address
    return Route(target.family, MAIN_TABLE, 0, 0, target.read_link().index, gateway, source, metric=50)


def _add_default_route(target: FaultTarget) -> None:
    target.send_messages(build_add_route(_build_default_route(target)))


def _delete_default_route(target: FaultTarget) -> None:
    target.send_messages(build_delete_route(_build_default_route(target)))


def _delete_fences(target: FaultTarget) -> None:
    """Delete the inverted rules, which keep the host's other traffic off the rails."""
    fences = [rule for rule in target.read_rules() if rule.invert]
    target.send_messages(*(build_delete_rule(rule) for rule in fences))


def _build_second_connected(target: FaultTarget) -> Route:
    """Return a connected route for the port's subnet through the port of the next rail."""
    subnet = target.addressing.subnet
    index = target.read_link(target.next_rail_port.netdev).index
    return Route(target.family, MAIN_TABLE, subnet.base, subnet.prefix, index, scope=RT_SCOPE_LINK)


def _add_second_connected(target: FaultTarget) -> None:
    target.send_messages(build_append_route(_build_second_connected(target)))


def _delete_second_connected(target: FaultTarget) -> None:
    target.send_messages(build_delete_route(_build_second_connected(target)))


def _find_gateway_routes(target: FaultTarget) -> list[Route]:
    routes = [route for route in target.read_routes(target.table) if route.gateway]
    if not routes:
        raise UnsuitableError("this fault needs a scheme with gateways")
    return routes


def _delete_gateway_routes(target: FaultTarget) -> None:
    target.send_messages(*(build_delete_route(route) for route in _find_gateway_routes(target)))


def _change_gateway(target: FaultTarget) -> None:
    """Replace the gateway of the rail's routes by that of the next rail."""
    gateway = target.next_rail_port.addresses[0].gateway
    for route in _find_gateway_routes(target):
        target.send_messages(build_delete_route(route), build_add_route(replace(route, gateway=gateway, onlink=True)))


def _drop_carrier(target: FaultTarget) -> None:
    from trackbed_lab.faults.addresses import FAULTS as ADDRESSES  # noqa: PLC0415 - one use

    next(fault for fault in ADDRESSES if fault.id == "addr-no-carrier").inject(target)


def _change_source(target: FaultTarget) -> None:
    """Set the source of the rail's routes to the address of the next rail."""
    source = target.next_rail_port.addresses[0].address
    routes = [route for route in target.read_routes(target.table) if route.type == RTN_UNICAST]
    target.send_messages(*(build_replace_route(replace(route, prefsrc=source)) for route in routes))


def _build_foreign_route(target: FaultTarget) -> Route:
    return Route(socket.AF_INET, target.table, _UNPLANNED, 24, target.read_link("eth0").index, scope=RT_SCOPE_LINK)


def _add_foreign_route(target: FaultTarget) -> None:
    target.send_messages(build_add_route(_build_foreign_route(target)))


def _delete_foreign_route(target: FaultTarget) -> None:
    target.send_messages(build_delete_route(_build_foreign_route(target)))


def _add_firewall(target: FaultTarget) -> None:
    nftables.add_drop_chain(target.lab.locate_netns(target.node.name), _FIREWALL, "input", "input", 2.0)


def _delete_firewall(target: FaultTarget) -> None:
    nftables.delete_table(target.lab.locate_netns(target.node.name), _FIREWALL, 2.0)


ON_HOST = True

FAULTS = (
    LabFault("route-rule-missing", _delete_port_rule),
    LabFault("route-rule-wrong-table", _redirect_rule),
    LabFault("route-table-empty", _empty_table),
    LabFault("route-table-flushed-by-link-down", _flap_port),
    LabFault("route-rule-shadowed", _shadow_rules, _unshadow_rules),
    LabFault("route-rp-filter-strict", _enable_strict_filter),
    LabFault("route-default-through-rail", _add_default_route, _delete_default_route),
    LabFault("route-host-traffic-on-rail", _delete_fences),
    LabFault("route-two-connected-for-one-subnet", _add_second_connected, _delete_second_connected),
    LabFault("route-supernet-missing", _delete_gateway_routes),
    LabFault("route-gateway-not-on-link", _change_gateway),
    LabFault("route-linkdown-kept", _drop_carrier),
    LabFault("route-source-hint-wrong", _change_source),
    LabFault("route-table-id-shared", _add_foreign_route, _delete_foreign_route),
    LabFault("route-firewall-drops-rails", _add_firewall, _delete_firewall),
)
