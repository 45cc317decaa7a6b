"""Keyfiles for NetworkManager: nm-settings-keyfile(5), one profile for each port.

The fence is the routing rule `priority 999 not to <supernet> table 254`. Profiles have routes with tables and no
gateway, so the port never becomes the default route of table main. A profile of the installer or of the site for the
same port does not connect by itself, because its autoconnect-priority is lower (nm-settings(5)).
"""

from collections.abc import Iterator

from trackbed.fabric.model.ranges import V4, V6, format_address
from trackbed.fabric.plan.plan import NodePlan
from trackbed.fabric.plan.routes import PlannedRoute, PlannedRule
from trackbed.host.kinds.rule import get_version
from trackbed.host.render.common import render_common, render_ini
from trackbed.host.render.ports import Port, build_network_settings

Entries = list[tuple[str, object]]

_PRIORITY = 999
"""The highest of NetworkManager's range; 0 is the default."""

FOLDER = "/etc/NetworkManager/system-connections/trackbed-"


def render(node: NodePlan) -> dict[str, str]:
    """Return the content of all files by path."""
    settings = build_network_settings(node)
    profiles = {f"{FOLDER}{port.name.netdev}.nmconnection": _render_profile(port) for port in settings.ports}
    return render_common(node, settings) | profiles


def _render_profile(port: Port) -> str:
    kind = "infiniband" if port.infiniband else "ethernet"
    identity: Entries = [("id", f"trackbed-{port.name.netdev}"), ("type", kind)]
    return render_ini(
        ("connection", [*identity, ("interface-name", port.name.netdev), ("autoconnect-priority", _PRIORITY)]),
        (kind, [("mtu", port.mtu_bytes)]),
        ("ipv4", list(_render_ip(port, V4))),
        ("ipv6", list(_render_ip(port, V6))),
    )


def _render_ip(port: Port, version: int) -> Iterator[tuple[str, object]]:
    addresses = [address for address in port.addresses if address.version == version]
    if not addresses:
        yield "method", "disabled" if version == V4 else "link-local"
        return
    yield "method", "manual"
    yield from ((f"address{number}", address) for number, address in enumerate(addresses, start=1))
    routes = [route for route in port.routes if route.to.version == version]
    for number, route in enumerate(routes, start=1):
        yield from _render_route(number, route)
    rules = [rule for rule in port.rules if get_version(rule) == version]
    yield from ((f"routing-rule{number}", _render_rule(rule)) for number, rule in enumerate(rules, start=1))


def _render_route(number: int, route: PlannedRoute) -> Iterator[tuple[str, object]]:
    version = route.to.version
    yield f"route{number}", f"{route.to},{format_address(version, route.gateway)}" if route.gateway else route.to
    options = [f"table={route.table}"]
    options += [f"src={format_address(version, route.source)}"] if route.source else []
    options += ["type=unreachable"] if route.unreachable else []
    # else NetworkManager sets scope link, as for each IPv4 route without a gateway, and not the kernel's default
    options += ["scope=0"] if route.unreachable and version == V4 else []
    yield f"route{number}_options", ",".join(options)


def _render_rule(rule: PlannedRule) -> str:
    selector = f"from {rule.source}" if rule.source else f"not to {rule.unless_to}"
    return f"priority {rule.priority} {selector} table {rule.table}"
