"""Checks of step routing for foreign entries: in the rails' tables, in table main, and in the firewall."""

from collections import Counter
from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding, format_value
from trackbed.doctor.evidence import summarize_items
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView, format_route, format_rule, get_ip_version
from trackbed.fabric.model.ranges import V4, V6, Range, format_address
from trackbed.fabric.plan.plan import PortPlan
from trackbed.fabric.plan.routes import MAIN_TABLE, build_fence_rule
from trackbed.kernel.netlink.addresses import FAMILY

RT_SCOPE_LINK = 253
"""RT_SCOPE_LINK of include/uapi/linux/rtnetlink.h."""
RTN_UNICAST = 1
STRICT = 1
"""rp_filter: 0 off, 1 strict (RFC 3704), 2 loose."""


def check(view: NodeView) -> Iterator[Finding]:
    """Check the host's routing, except for the rails' own rules and tables; what needs neither comes first."""
    for port in view.iter_ports():
        yield from check_rp_filter(view, port)
    yield from check_firewall(view)
    for port in view.iter_ports():
        yield from check_linkdown_routes(view, port)
        yield from check_default_routes(view, port)
    yield from check_connected_routes(view)
    for port in view.iter_ports():
        yield from check_shared_table(view, port)
    yield from check_fence(view)


def check_shared_table(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    """Check that the rail's table has no routes of other interfaces, and that no foreign rule uses it."""
    table, link = view.node.common.rails[port.rail].table, view.find_link(port)
    # Rules from an address of any rail are left to route-rule-wrong-table.
    sources = {address.address for rail_port in view.node.ports for address in rail_port.addresses}
    routes = [
        route
        for route in view.state.routes
        if route.table == table and route.type == RTN_UNICAST and link and route.oif != link.index
    ]
    rules = [rule for rule in view.state.rules if rule.table == table and rule.src not in sources]
    evidence = "; ".join([*(format_route(view, route) for route in routes), *map(format_rule, rules)])
    yield _build_route_finding("route-table-id-shared", view, port, evidence)


def _build_route_finding(fault_id: str, view: NodeView, port: PortPlan, evidence: str) -> Finding:
    """Return the finding of a check for wrong routes, which `evidence` names; without the interface it is unknown."""
    link = view.find_link(port)
    ok = False if evidence else True if link else None
    missing = "" if link else f"no interface is called {port.netdev}"
    return build_finding(fault_id, view.node, port, ok=ok, evidence=evidence or missing)


def check_rp_filter(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    """Check that the effective rp_filter is not strict."""
    value, common = (view.sysctls.get(f"net/ipv4/conf/{name}/rp_filter") for name in (port.netdev, "all"))
    effective = view.get_effective_sysctl(port, "rp_filter")
    ok = None if effective is None else effective != STRICT
    evidence = (
        ", ".join(f"{name} {format_value(number)}" for name, number in (("rp_filter", value), ("all", common)))
        + f": effective {format_value(effective)}"
    )
    yield build_finding("route-rp-filter-strict", view.node, port, ok=ok, evidence=evidence)


def check_linkdown_routes(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    """Check that no route is marked linkdown while the port is up."""
    link = view.find_link(port)
    dead = [route for route in view.list_routes(port) if link and link.is_up and route.linkdown]
    evidence = "; ".join(format_route(view, route) for route in dead[:2])
    yield _build_route_finding("route-linkdown-kept", view, port, evidence)


def check_default_routes(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    """Check that table main has no default route through the port."""
    defaults = [route for route in view.list_routes(port) if route.table == MAIN_TABLE and route.prefix == 0]
    evidence = "; ".join(format_route(view, route) for route in defaults)
    yield _build_route_finding("route-default-through-rail", view, port, evidence)


def check_connected_routes(view: NodeView) -> Iterator[Finding]:
    """Check that no two ports have a connected route for the same IPv4 subnet."""
    ports = {link.index for port in view.iter_ports() if (link := view.find_link(port))}
    connected = dict.fromkeys(
        (route.family, route.dst, route.prefix, route.oif)
        for route in view.state.routes
        if route.table == MAIN_TABLE
        and route.oif in ports
        and route.scope == RT_SCOPE_LINK
        and route.type == RTN_UNICAST
        and route.family == FAMILY[V4]
    )
    counts = Counter((family, dst, prefix) for family, dst, prefix, _ in connected)
    doubled = [
        f"{format_address(get_ip_version(family), dst)}/{prefix}"
        for (family, dst, prefix), count in counts.items()
        if count > 1
    ]
    missing = [port.netdev for port in view.iter_ports() if view.find_link(port) is None]
    ok = False if doubled else None if missing else True
    evidence = ", ".join(doubled) or (f"no interface is called {summarize_items(missing)}" if missing else "")
    yield build_finding("route-two-connected-for-one-subnet", view.node, None, ok=ok, evidence=evidence)


def check_fence(view: NodeView) -> Iterator[Finding]:
    """Check that the fence rules keep the host's own traffic off the rails."""
    rails = {port.netdev for port in view.node.ports}
    strays = [
        f"{format_address(V4, address)} goes by {netdev}"
        for address, netdev in view.management_paths.items()
        if netdev in rails
    ]
    fences = [rule.unless_to for version in (V4, V6) if (rule := build_fence_rule(view.node.common, version))]
    missing = [f"no rule: not to {target} lookup main" for target in fences if target and not _has_fence(view, target)]
    unread = [address for address in view.management if address not in view.management_paths]
    wrong = [*strays, *missing]
    ok = False if wrong else None if unread else True
    evidence = "; ".join(wrong) or f"{len(fences)} rules; {len(view.management_paths)} management addresses looked up"
    yield build_finding("route-host-traffic-on-rail", view.node, None, ok=ok, evidence=evidence)


def _has_fence(view: NodeView, target: Range) -> bool:
    """Return whether the node has the fence rule `not to TARGET lookup main`."""
    fence = (FAMILY[target.version], target.base, target.prefix)
    return any(rule.invert and (rule.family, rule.dst, rule.dst_prefix) == fence for rule in view.state.rules)


def check_firewall(view: NodeView) -> Iterator[Finding]:
    """Check that no base chain drops all packets."""
    if view.chains is None:
        yield build_finding("route-firewall-drops-rails", view.node, None, ok=None, evidence="nf_tables cannot be read")
        return
    closed = [
        chain
        for chain in view.chains
        if chain.hook in {"input", "forward"} and chain.policy == "drop" and not chain.rules
    ]
    evidence = ", ".join(
        f"{chain.family} {chain.table} {chain.name}: hook {chain.hook}, policy drop, no rules" for chain in closed
    )
    yield build_finding("route-firewall-drops-rails", view.node, None, ok=not closed, evidence=evidence)
