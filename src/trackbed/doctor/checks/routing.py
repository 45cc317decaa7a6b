"""Step routing, foreign state: entries of others in the rails' tables, in table main, and in the firewall."""

from collections import Counter
from collections.abc import Iterator

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks import routing_host
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView, format_route, format_rule, get_ip_version
from trackbed.fabric.model.ranges import V4, V6, format_address
from trackbed.fabric.plan.plan import PortPlan
from trackbed.fabric.plan.routes import MAIN_TABLE, build_fence
from trackbed.kernel.netlink.addresses import FAMILY
from trackbed.kernel.netlink.routes import Route

READS = routing_host.READS
"""What these checks read of a host."""

RT_SCOPE_LINK = 253
"""RT_SCOPE_LINK of include/uapi/linux/rtnetlink.h."""
RTN_UNICAST = 1
STRICT = 1
"""rp_filter: 0 off, 1 strict (RFC 3704), 2 loose."""


def check(view: NodeView) -> Iterator[Finding]:
    """Check the host's routing apart from the rails' own rules and tables."""
    for port in view.iter_ports():
        yield from check_shared_table(view, port)
        yield from check_rp_filter(view, port)
        yield from check_linkdown_routes(view, port)
        yield from check_default_routes(view, port)
    yield from check_connected_routes(view)
    yield from check_fence(view)
    yield from check_firewall(view)
    yield from routing_host.check(view)


def check_shared_table(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    """Check that the rail's table has no routes of other interfaces, and that no foreign rule uses it."""
    table, link = view.node.common.rails[port.rail].table, view.find_link(port)
    sources = {address.address for address in port.addresses}
    routes = [
        route
        for route in view.state.routes
        if route.table == table and route.type == RTN_UNICAST and link and route.oif != link.index
    ]
    rules = [rule for rule in view.state.rules if rule.table == table]
    rules = [rule for rule in rules if not (rule.src_prefix and rule.src in sources)]
    rules = [rule for rule in rules if not _is_rail_address(view, rule.src)]
    evidence = "; ".join([*(format_route(view, route) for route in routes), *map(format_rule, rules)])
    yield judge("route-table-id-shared", view.node, port, ok=not (routes or rules), evidence=evidence)


def _is_rail_address(view: NodeView, source: int | None) -> bool:
    """Return whether a rule's source is an address of any rail; such a rule is judged by route-rule-wrong-table."""
    return any(address.address == source for port in view.node.ports for address in port.addresses)


def check_rp_filter(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    """Check that the effective rp_filter, the larger of the interface's and of `all`, is not strict."""
    keys = (f"net/ipv4/conf/{port.netdev}/rp_filter", "net/ipv4/conf/all/rp_filter")
    values = [view.sysctls.get(key) for key in keys]
    effective = max(int(value) for value in values if value is not None) if values[0] is not None else None
    ok = None if effective is None else effective != STRICT
    evidence = f"rp_filter {values[0]}, all {values[1]}: effective {effective}"
    yield judge("route-rp-filter-strict", view.node, port, ok=ok, evidence=evidence)


def check_linkdown_routes(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    """Check that no route is marked linkdown while the port is up."""
    link = view.find_link(port)
    dead = [route for route in view.state.routes if link and link.up and route.oif == link.index and route.linkdown]
    evidence = "; ".join(format_route(view, route) for route in dead[:2])
    yield judge("route-linkdown-kept", view.node, port, ok=not dead, evidence=evidence)


def check_default_routes(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    """Check that table main has no default route through the port."""
    link = view.find_link(port)
    defaults = [route for route in _list_main_routes(view) if link and route.oif == link.index and route.prefix == 0]
    evidence = "; ".join(format_route(view, route) for route in defaults)
    yield judge("route-default-through-rail", view.node, port, ok=not defaults, evidence=evidence)


def _list_main_routes(view: NodeView) -> list[Route]:
    return [route for route in view.state.routes if route.table == MAIN_TABLE]


def check_connected_routes(view: NodeView) -> Iterator[Finding]:
    """Check that no two ports have a connected route for the same IPv4 subnet."""
    ports = {link.index for port in view.iter_ports() if (link := view.find_link(port))}
    connected = dict.fromkeys(
        (route.family, route.dst, route.prefix, route.oif)
        for route in _list_main_routes(view)
        if route.oif in ports
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
    yield judge("route-two-connected-for-one-subnet", view.node, None, ok=not doubled, evidence=", ".join(doubled))


def check_fence(view: NodeView) -> Iterator[Finding]:
    """Check that the fence rules keep the host's own traffic off the rails."""
    rails = {port.netdev for port in view.node.ports}
    strays = [
        f"{format_address(V4, address)} goes by {netdev}"
        for address, netdev in view.management_paths.items()
        if netdev in rails
    ]
    missing = [
        str(rule.unless_to)
        for version in (V4, V6)
        if (rule := build_fence(view.node.common, version)) and not _has_fence(view, version)
    ]
    evidence = "; ".join([*strays, *(f"no rule: not to {target} lookup main" for target in missing)])
    yield judge("route-host-traffic-on-rail", view.node, None, ok=not evidence, evidence=evidence)


def _has_fence(view: NodeView, version: int) -> bool:
    planned = build_fence(view.node.common, version)
    target = planned.unless_to if planned else None
    return any(
        rule.invert
        and rule.family == FAMILY[version]
        and target
        and (rule.dst, rule.dst_prefix) == (target.base, target.prefix)
        for rule in view.state.rules
    )


def check_firewall(view: NodeView) -> Iterator[Finding]:
    """Check that no base chain drops all packets."""
    if view.chains is None:
        yield judge("route-firewall-drops-rails", view.node, None, ok=None, evidence="nf_tables cannot be read")
        return
    closed = [
        chain
        for chain in view.chains
        if chain.hook in {"input", "forward"} and chain.policy == "drop" and not chain.rules
    ]
    evidence = ", ".join(
        f"{chain.family} {chain.table} {chain.name}: hook {chain.hook}, policy drop, no rules" for chain in closed
    )
    yield judge("route-firewall-drops-rails", view.node, None, ok=not closed, evidence=evidence)
