"""Step routing: traffic leaves by the rail of its source address, and other traffic never uses a rail.

Wanted: for each port a table, a rule and the routes of `plan.routes`, one fence rule for each IP version, and the
per-interface switches of Documentation/networking/ip-sysctl.rst that let several ports live on one host:

    rp_filter=2      loose reverse path check; the kernel uses the larger of this and conf/all, which is at most 2
    arp_ignore=1     reply to ARP only for addresses of the receiving port
    arp_announce=2   send ARP requests only with an address of the sending port
    arp_filter=1     if two rails share a subnet: reply only if the reply would leave by the receiving port

`conf/all` is not changed, because it affects the management port, too; nor is `ignore_routes_with_linkdown`. Without
this step the kernel sends the traffic of all rails by one port, and replies to ARP for one rail on another.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.model.ranges import V4, V6
from trackbed.fabric.plan.plan import AddressPlan, NodePlan, PortPlan
from trackbed.fabric.plan.routes import build_fence_rule, build_source_rule, iter_routes
from trackbed.host.kinds import route, sysctl
from trackbed.host.setting import Setting

STEP = "routing"
IS_RENDERED = True

_SWITCHES = (
    ("rp_filter", "2", "an answer that comes in by another rail than it would leave by must not be dropped"),
    ("arp_ignore", "1", "a port must not answer ARP for the address of another port"),
    ("arp_announce", "2", "a port must not ask ARP in the name of another port"),
)
_FILTER = ("arp_filter", "1", "rails that share a subnet must answer ARP on the port that would carry the reply")


def iter_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield the kernel parameters, then the routes, then the rules that select them; the fence is last."""
    for port in node.ports:
        if port.v4:
            yield from _iter_sysctl_settings(node, port, port.v4)
    for port in node.ports:
        yield from _iter_route_settings(node, port)
    for port in node.ports:
        why = f"traffic from rail {port.rail}'s address leaves by rail {port.rail}"
        yield from (
            Setting(STEP, build_source_rule(node.common, port.rail, address), port.rail, why)
            for address in port.addresses
        )
    yield from _iter_fence_rules(node)


def _iter_sysctl_settings(node: NodePlan, port: PortPlan, address: AddressPlan) -> Iterator[Setting]:
    shared = any(other.v4 and other.v4.subnet == address.subnet for other in node.ports if other is not port)
    for name, value, why in (*_SWITCHES, _FILTER) if shared else _SWITCHES:
        yield Setting(STEP, sysctl.Want(f"net/ipv4/conf/{port.netdev}/{name}", value), port.rail, why)


def _iter_route_settings(node: NodePlan, port: PortPlan) -> Iterator[Setting]:
    for address in port.addresses:
        for planned_route in iter_routes(node.common, port.rail, address, carries_supernet=port is node.ports[0]):
            why = f"where traffic of rail {port.rail} goes"
            yield Setting(STEP, route.Want(port.netdev, planned_route), port.rail, why)


def _iter_fence_rules(node: NodePlan) -> Iterator[Setting]:
    for version in (V4, V6):
        is_planned = any(address.version == version for port in node.ports for address in port.addresses)
        fence = build_fence_rule(node.common, version) if is_planned else None
        if fence:
            yield Setting(STEP, fence, None, "only traffic between rails may use the tables of the rails")
