"""Step routing: traffic leaves by the rail whose address it carries, and nothing else ever takes a rail.

Wanted: for each port a table, a rule and the routes of `plan.routes`, one fence rule for each IP version, and the
per-interface switches of Documentation/networking/ip-sysctl.rst that let several ports live on one host:

    rp_filter=2      loose reverse path check; the kernel takes the larger of this and conf/all, so 2 always wins
    arp_ignore=1     answer ARP only for addresses of the asked port
    arp_announce=2   ask ARP only with an address of the asking port
    arp_filter=1     only where two rails share a subnet: answer only if the reply would leave by the asked port

`conf/all` is never touched: it would change the management port too. `ignore_routes_with_linkdown` is left as it is.
Without this step the kernel sends the traffic of all rails out of one port, and answers ARP for one rail on another.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.model.ranges import V4, V6
from trackbed.fabric.plan.plan import AddressPlan, NodePlan, PortPlan
from trackbed.fabric.plan.routes import build_fence, build_routes, build_rule
from trackbed.host.kinds import route, sysctl
from trackbed.host.setting import Setting

STEP = "routing"
IS_RENDERED = True
HAS_FILES = False

_SWITCHES = (
    ("rp_filter", "2", "an answer that comes in by another rail than it would leave by must not be dropped"),
    ("arp_ignore", "1", "a port must not answer ARP for the address of another port"),
    ("arp_announce", "2", "a port must not ask ARP in the name of another port"),
)
_FILTER = ("arp_filter", "1", "rails that share a subnet must answer ARP on the port that would carry the reply")


def list_settings(node: NodePlan) -> Iterator[Setting]:
    """Switches, then routes, then the rules that lead to them, the fence last."""
    for port in node.ports:
        if port.v4:
            yield from _list_switches(node, port, port.v4)
    for port in node.ports:
        yield from _list_routes(node, port)
    for port in node.ports:
        why = f"traffic from rail {port.rail}'s address leaves by rail {port.rail}"
        yield from (
            Setting(STEP, build_rule(node.common, port.rail, address), port.rail, why) for address in port.addresses
        )
    yield from _list_fences(node)


def _list_switches(node: NodePlan, port: PortPlan, address: AddressPlan) -> Iterator[Setting]:
    shared = any(other.v4 and other.v4.subnet == address.subnet for other in node.ports if other is not port)
    for name, value, why in (*_SWITCHES, _FILTER) if shared else _SWITCHES:
        yield Setting(STEP, sysctl.Want(f"net/ipv4/conf/{port.netdev}/{name}", value), port.rail, why)


def _list_routes(node: NodePlan, port: PortPlan) -> Iterator[Setting]:
    for address in port.addresses:
        for planned_route in build_routes(node.common, port.rail, address, first=port is node.ports[0]):
            why = f"where traffic of rail {port.rail} goes"
            yield Setting(STEP, route.Want(port.netdev, planned_route), port.rail, why)


def _list_fences(node: NodePlan) -> Iterator[Setting]:
    for version in (V4, V6):
        is_planned = any(address.version == version for port in node.ports for address in port.addresses)
        fence = build_fence(node.common, version) if is_planned else None
        if fence:
            yield Setting(STEP, fence, None, "only traffic between rails may use the tables of the rails")
