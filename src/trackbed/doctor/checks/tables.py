"""Checks of step routing for the rails' own rules and tables, which `trackbed.fabric.plan.routes` plans."""

from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding, iter_unknown_findings, restrict_to_address
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView, format_route, format_rule
from trackbed.fabric.model.ranges import BITS, V4, Range, format_address
from trackbed.fabric.plan.plan import AddressPlan, PortPlan
from trackbed.fabric.plan.routes import MAIN_TABLE
from trackbed.kernel.netlink.addresses import FAMILY
from trackbed.kernel.netlink.routes import Route
from trackbed.kernel.netlink.rules import PolicyRule

RTN_UNICAST = 1
"""RTN_UNICAST of include/uapi/linux/rtnetlink.h."""
_FAULTS_OF_TABLES = ("route-table-empty", "route-source-hint-wrong")
"""Faults for which the table of each address is checked."""


def check(view: NodeView) -> Iterator[Finding]:
    """Check the rule and the table of each address of the ports that are on the host."""
    addressed_ports = [
        (restrict_to_address(port, address), address) for port in view.iter_ports() for address in port.addresses
    ]
    for port, address in addressed_ports:
        yield from check_rule(view, port, address)
    for port, address in addressed_ports:
        if view.find_link(port) is None:
            evidence = f"no interface is called {port.netdev}"
            yield from iter_unknown_findings(_FAULTS_OF_TABLES, view.node, port, evidence)
        else:
            yield from check_table(view, port, address)


def check_rule(view: NodeView, port: PortPlan, address: AddressPlan) -> Iterator[Finding]:
    """Check that the rule of an address selects the rail's table, and that no earlier rule matches its traffic."""
    node, family = view.node, FAMILY[address.version]
    table, priority = node.common.rails[port.rail].table, node.common.rule_priority + port.rail
    rules = [rule for rule in view.state.rules if rule.family == family]
    matches = [rule for rule in rules if _is_source_rule(rule, address)]
    listing = "; ".join(map(format_rule, matches)) or f"no rule from {format_address(address.version, address.address)}"
    yield build_finding("route-rule-missing", node, port, ok=bool(matches), evidence=listing)
    if not matches:
        return
    ok = any(rule.table == table for rule in matches)
    yield build_finding("route-rule-wrong-table", node, port, ok=ok, evidence=f"{listing}, planned table {table}")
    shadows = [rule for rule in rules if 0 < rule.priority < priority and _matches_rail_traffic(view, rule, address)]
    yield build_finding(
        "route-rule-shadowed", node, port, ok=not shadows, evidence="; ".join(map(format_rule, shadows))
    )


def _is_source_rule(rule: PolicyRule, address: AddressPlan) -> bool:
    """Return whether a rule selects traffic from exactly this address."""
    return rule.src == address.address and rule.src_prefix == BITS[address.version] and not rule.invert


def _matches_rail_traffic(view: NodeView, rule: PolicyRule, address: AddressPlan) -> bool:
    """Return whether a rule matches rail traffic from an address; the fence and the rails' own rules do not count."""
    if rule.invert or rule.fwmark or rule.iif or rule.oif or _is_source_rule(rule, address):
        return False
    covers = not rule.src_prefix or address.address in Range(address.version, rule.src or 0, rule.src_prefix)
    target = Range(address.version, rule.dst or 0, rule.dst_prefix) if rule.dst_prefix else None
    return covers and (target is None or any(target.overlaps(rail_range) for rail_range in view.list_rail_ranges()))


def check_table(view: NodeView, port: PortPlan, address: AddressPlan) -> Iterator[Finding]:
    """Check that the rail's table has its routes, with the planned gateway and source address."""
    node, table, link = view.node, view.node.common.rails[port.rail].table, view.find_link(port)
    routes = [
        route
        for route in view.state.routes
        if route.family == FAMILY[address.version]
        and route.table == table
        and ((link and route.oif == link.index) or route.type != RTN_UNICAST)
    ]
    flaps = _describe_flaps(view, port)
    listing = "; ".join(format_route(view, route) for route in routes) or f"table {table} is empty"
    fault_id = "route-table-flushed-by-link-down" if flaps else "route-table-empty"
    unicast_routes = [route for route in routes if route.type == RTN_UNICAST]
    evidence = listing + (f"; {flaps}" if flaps else "")
    yield build_finding(fault_id, node, port, ok=bool(unicast_routes), evidence=evidence)
    if not unicast_routes:
        return
    if address.gateway:
        yield from _check_gateway_routes(view, port, address, routes)
    wrong = [
        route for route in unicast_routes + _list_main_routes(view, port, address) if route.prefsrc != address.address
    ]
    evidence = "; ".join(format_route(view, route) for route in wrong)
    yield build_finding("route-source-hint-wrong", node, port, ok=not wrong, evidence=evidence)


def _check_gateway_routes(
    view: NodeView, port: PortPlan, address: AddressPlan, routes: list[Route]
) -> Iterator[Finding]:
    """Check that gateways are on-link, and that a gateway leads to the rest of the rail's range."""
    off_link = [route for route in routes if route.gateway and route.gateway not in address.subnet]
    evidence = "; ".join(format_route(view, route) for route in off_link)
    yield build_finding("route-gateway-not-on-link", view.node, port, ok=not off_link, evidence=evidence)
    rail = view.node.common.rails[port.rail]
    rail_range = rail.v4 if address.version == V4 else rail.v6
    if rail_range is None or rail_range == address.subnet:
        return
    ok = any(
        route.type == RTN_UNICAST
        and route.gateway
        and (not route.prefix or rail_range.overlaps(Range(address.version, route.dst, route.prefix)))
        for route in routes
    )
    listing = "; ".join(format_route(view, route) for route in routes)
    yield build_finding("route-supernet-missing", view.node, port, ok=ok, evidence=listing)


def _list_main_routes(view: NodeView, port: PortPlan, address: AddressPlan) -> list[Route]:
    """Return the routes of table main over this port that have a gateway."""
    return [
        route
        for route in view.list_routes(port)
        if route.family == FAMILY[address.version] and route.table == MAIN_TABLE and route.gateway
    ]


def _describe_flaps(view: NodeView, port: PortPlan) -> str:
    """Describe how often the carrier changed since the last apply; empty if it did not, or if unknown."""
    link, baseline = view.find_link(port), (view.baseline or {}).get(port.netdev)
    if link is None or baseline is None or port.netdev in view.moved_ports:
        return ""
    changes = link.carrier_up_count + link.carrier_down_count - baseline[0]
    return f"carrier changed {changes} times since the last apply" if changes > 0 else ""
