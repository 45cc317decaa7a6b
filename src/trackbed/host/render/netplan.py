"""Files for netplan: one YAML file (netplan(5)) and, for the fence, a drop-in.

netplan's routing-policy cannot invert a rule (as of 1.1; its keys are from, to, table, priority, mark,
type-of-service). So the fence is a drop-in for the systemd.network file that netplan generates for the first port:
networkd merges `10-netplan-rail0.network.d/*.conf` into it. Therefore networkd is the renderer of the ports,
independent of the site's default. `optional: true`: an unplugged rail must not delay the boot of the host.
"""

from typing import Any

from trackbed.fabric.model.ranges import V4, format_address
from trackbed.fabric.plan.plan import NodePlan
from trackbed.fabric.plan.routes import PlannedRoute, PlannedRule
from trackbed.fabric.yaml_text import Layout, render_mapping
from trackbed.host.render.common import render_common, render_ini
from trackbed.host.render.networkd import build_rule_section
from trackbed.host.render.ports import Port, build_network_settings
from trackbed.host.setting import HEAD

_LAYOUT = Layout(plain=r"[0-9a-f:]*::[0-9a-f:]*[0-9a-f](?:/[0-9]+)?|[0-9a-f:.]+/[0-9]+")
"""Addresses and ranges are not quoted."""

FILE = "/etc/netplan/90-trackbed.yaml"


def render(node: NodePlan) -> dict[str, str]:
    """Return the content of all files by path."""
    settings = build_network_settings(node)
    ethernets = {port.name.netdev: _build_ethernet(port) for port in settings.ports}
    document = {"network": {"version": 2, "ethernets": ethernets}}
    files = render_common(node, settings) | {FILE: HEAD + render_mapping(document, _LAYOUT)}
    for port in settings.ports:
        fences = [rule for rule in port.rules if rule.unless_to]
        if fences:
            path = f"/etc/systemd/network/10-netplan-{port.name.netdev}.network.d/90-trackbed.conf"
            files[path] = render_ini(*(build_rule_section(rule) for rule in fences))
    return files


def _build_ethernet(port: Port) -> dict[str, Any]:
    return {
        "renderer": "networkd",
        "optional": True,
        "dhcp4": False,
        "dhcp6": False,
        "accept-ra": False,
        "mtu": port.mtu_bytes,
        "addresses": [str(address) for address in port.addresses],
        "routes": [_build_route(route) for route in port.routes],
        "routing-policy": [_build_rule(rule) for rule in port.rules if rule.source],
    }


def _build_route(route: PlannedRoute) -> dict[str, Any]:
    version = route.to.version
    entry: dict[str, Any] = {"to": str(route.to), "table": route.table}
    if route.unreachable:
        entry["type"] = "unreachable"
    elif route.gateway:
        entry["via"] = format_address(version, route.gateway)
    elif version == V4:
        entry["scope"] = "link"
    if route.source:
        entry["from"] = format_address(version, route.source)
    return entry


def _build_rule(rule: PlannedRule) -> dict[str, Any]:
    return {"from": str(rule.source), "table": rule.table, "priority": rule.priority}
