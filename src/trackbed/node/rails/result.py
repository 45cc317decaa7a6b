"""What a runtime gets for a successful ADD (CNI specification, section 5): one interface for each rail.

CNI_IFNAME names the attachment, not an interface: one call attaches all rails, and each is called after its rail.
In a chain, our interfaces, addresses and routes follow those of the plugins before us.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.plan import CommonPlan
from trackbed.fabric.plan.routes import MAIN_TABLE, PlannedRoute, build_routes
from trackbed.node.rails.attachment import Attachment, PodPort
from trackbed.node.rails.protocol import Json

_WITH_MORE = "1.1.0"
"""The first version whose result has an interface's mtu and a route's table."""


def build_result(version: str, attachment: Attachment, common: CommonPlan, previous: Json | None) -> Json:
    """The result of an attachment, in the words of `version`, after `previous`."""
    before = previous or {}
    first = len(before.get("interfaces") or [])
    ours = {
        "interfaces": [_interface(version, port, attachment.netns) for port in attachment.ports],
        "ips": [
            {"address": own.text, **({"gateway": own.gateway} if own.gateway else {}), "interface": number}
            for number, port in enumerate(attachment.ports, first)
            for own in port.addresses
        ],
        "routes": [_route(version, route) for _, route in list_pod_routes(attachment, common) if _told(version, route)],
    }
    merged = {field: [*(before.get(field) or []), *entries] for field, entries in ours.items()}
    return {**before, "cniVersion": version, **merged}


def list_pod_routes(attachment: Attachment, common: CommonPlan) -> Iterator[tuple[int, PlannedRoute]]:
    """All routes of an attachment with their rails, as the plan gives them."""
    for port in attachment.ports:
        first = port.rail == attachment.first_rail
        for own in port.addresses:
            yield from ((port.rail, route) for route in build_routes(common, port.rail, own.addressed, first=first))


def _interface(version: str, port: PodPort, netns: str) -> Json:
    more = {"mtu": port.mtu_bytes} if version >= _WITH_MORE else {}
    return {"name": port.name, "mac": port.mac, **more, "sandbox": netns}


def _told(version: str, route: PlannedRoute) -> bool:
    """A result cannot say `unreachable`, and before 1.1.0 it cannot say in which table a route is."""
    return not route.unreachable and (version >= _WITH_MORE or route.table == MAIN_TABLE)


def _route(version: str, route: PlannedRoute) -> Json:
    gateway = {"gw": format_address(route.to.version, route.gateway)} if route.gateway else {}
    return {"dst": str(route.to), **gateway, **({"table": route.table} if version >= _WITH_MORE else {})}
