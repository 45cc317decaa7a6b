"""Files for systemd-networkd: systemd.network(5).

The fence is a rule with `InvertRule=yes`. Routes have Trackbed's protocol number, as in `trackbed apply`.
`RequiredForOnline=no`: an unplugged rail must not delay the boot of the host.
"""

from collections.abc import Iterator

from trackbed.fabric.model.ranges import V4, format_address
from trackbed.fabric.plan.plan import NodePlan
from trackbed.fabric.plan.routes import PlannedRoute, PlannedRule
from trackbed.host.render.common import NETWORKD, render_common, render_ini
from trackbed.host.render.ports import Port, build_network_settings
from trackbed.host.setting import PROTOCOL

Section = tuple[str, list[tuple[str, object]]]


def render(node: NodePlan) -> dict[str, str]:
    """Return the content of all files by path."""
    settings = build_network_settings(node)
    networks = {f"{NETWORKD}{port.name.netdev}.network": _render_network(port) for port in settings.ports}
    return render_common(node, settings) | networks


def build_rule_section(rule: PlannedRule) -> Section:
    """Return the section of one rule."""
    selector: list[tuple[str, object]] = (
        [("From", rule.source)] if rule.source else [("To", rule.unless_to), ("InvertRule", "yes")]
    )
    return "RoutingPolicyRule", [("Priority", rule.priority), *selector, ("Table", rule.table)]


def _render_network(port: Port) -> str:
    addresses: list[tuple[str, object]] = [("Address", address) for address in port.addresses]
    return render_ini(
        ("Match", [("Name", port.name.netdev)]),
        ("Link", [("MTUBytes", port.mtu_bytes), ("RequiredForOnline", "no")]),
        ("Network", [("DHCP", "no"), ("IPv6AcceptRA", "no"), *addresses]),
        *(("Route", list(_iter_route_keys(route))) for route in port.routes),
        *(build_rule_section(rule) for rule in port.rules),
    )


def _iter_route_keys(route: PlannedRoute) -> Iterator[tuple[str, object]]:
    version = route.to.version
    yield "Destination", route.to
    if route.unreachable:
        yield "Type", "unreachable"
    if route.gateway:
        yield "Gateway", format_address(version, route.gateway)
    elif version == V4 and not route.unreachable:
        yield "Scope", "link"
    if route.source:
        yield "PreferredSource", format_address(version, route.source)
    yield "Table", route.table
    yield "Protocol", PROTOCOL
