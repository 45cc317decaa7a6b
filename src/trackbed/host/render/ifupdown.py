"""One file for ifupdown: interfaces(5), of Debian.

ifupdown itself sets MTU and addresses. It knows neither route tables nor rules, so these are commands of ip(8), which
can be run again: `replace` for routes; a rule is deleted before it is added, because the kernel refuses a copy. Ports
come up at the same time, so another one may have added the node's own rule in between; ifup stops at a command that
fails, and must not for that.

`allow-hotplug`: udev brings a port up when it appears, at boot and when it comes back from a pod, and a port that is
missing does not fail networking.service (Debian's 80-ifupdown.rules and ifup@.service). dad-attempts 0: a port without
a carrier must not delay the others by waiting for duplicate address detection.
"""

from collections.abc import Iterator

from trackbed.fabric.model.ranges import V4, format_address
from trackbed.fabric.plan.plan import AddressPlan, NodePlan
from trackbed.fabric.plan.routes import PlannedRoute, PlannedRule
from trackbed.host.formats import IFUPDOWN_FILE
from trackbed.host.kinds.rule import get_version
from trackbed.host.render.common import render_common
from trackbed.host.render.ports import Port, build_network_settings
from trackbed.host.setting import HEAD, PROTOCOL


def render(node: NodePlan) -> dict[str, str]:
    """Return the content of all files by path."""
    settings = build_network_settings(node)
    stanzas = "".join(line for port in settings.ports for line in _iter_lines(port))
    return render_common(node, settings) | {IFUPDOWN_FILE: HEAD + stanzas}


def _iter_lines(port: Port) -> Iterator[str]:
    netdev = port.name.netdev
    yield f"\nallow-hotplug {netdev}\n"
    for number, address in enumerate(port.addresses):
        family, options = ("inet", ()) if address.version == V4 else ("inet6", ("accept_ra 0", "dad-attempts 0"))
        mtu = () if number else (f"mtu {port.mtu_bytes}",)
        yield f"iface {netdev} {family} static\n"
        yield from (f"    {line}\n" for line in (f"address {address}", *mtu, *options, *_iter_commands(port, address)))


def _iter_commands(port: Port, address: AddressPlan) -> Iterator[str]:
    """Yield the commands for the routes and rules of one IP version."""
    ip = f"ip -{address.version}"
    for route in port.routes:
        if route.to.version == address.version:
            yield f"up {ip} route replace {_format_route(route, port.name.netdev)}"
    for rule in port.rules:
        if get_version(rule) == address.version:
            text = _format_rule(rule)
            yield f"up {ip} rule del {text} 2>/dev/null; {ip} rule add {text} protocol {PROTOCOL} || true"


def _format_route(route: PlannedRoute, netdev: str) -> str:
    version = route.to.version
    words = [f"unreachable {route.to}" if route.unreachable else f"{route.to} dev {netdev}"]
    words += [f"via {format_address(version, route.gateway)}"] if route.gateway else []
    words += [f"src {format_address(version, route.source)}"] if route.source else []
    return " ".join([*words, f"table {route.table} proto {PROTOCOL}"])


def _format_rule(rule: PlannedRule) -> str:
    selector = f"from {rule.source}" if rule.source else f"not to {rule.unless_to}"
    return f"priority {rule.priority} {selector} lookup {rule.table}"
