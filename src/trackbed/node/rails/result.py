"""The result of a successful ADD (CNI specification, section 5), with one interface for each rail.

CNI_IFNAME names the attachment, not an interface: one call attaches all rails, and each interface is named after its
rail. In a chain, Trackbed's interfaces, addresses and routes follow those of the preceding plugins.
"""

from collections.abc import Iterator

from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.plan import CommonPlan
from trackbed.fabric.plan.routes import MAIN_TABLE, PlannedRoute, build_routes
from trackbed.node.rails.attachment import Attachment, PodPort
from trackbed.node.rails.protocol import Json

_MTU_AND_TABLE_VERSION = "1.1.0"
"""The first version whose result has an interface's mtu and a route's table."""


def build_result(version: str, attachment: Attachment, common: CommonPlan, previous: Json | None) -> Json:
    """Return the result of an attachment in the format of `version`, appended to the `previous` result."""
    before = previous or {}
    first = len(before.get("interfaces") or [])
    added = {
        "interfaces": [_build_interface(version, port, attachment.netns) for port in attachment.ports],
        "ips": [
            {"address": address.text, **({"gateway": address.gateway} if address.gateway else {}), "interface": number}
            for number, port in enumerate(attachment.ports, first)
            for address in port.addresses
        ],
        "routes": [
            _build_route(version, route)
            for _, route in list_pod_routes(attachment, common)
            if _is_expressible(version, route)
        ],
    }
    merged = {field: [*(before.get(field) or []), *entries] for field, entries in added.items()}
    return {**before, "cniVersion": version, **merged}


def list_pod_routes(attachment: Attachment, common: CommonPlan) -> Iterator[tuple[int, PlannedRoute]]:
    """Yield all planned routes of an attachment with their rails."""
    for port in attachment.ports:
        first = port.rail == attachment.first_rail
        for address in port.addresses:
            for route in build_routes(common, port.rail, address.addressed, first=first):
                yield port.rail, route


def _build_interface(version: str, port: PodPort, netns: str) -> Json:
    mtu = {"mtu": port.mtu_bytes} if version >= _MTU_AND_TABLE_VERSION else {}
    return {"name": port.name, "mac": port.mac, **mtu, "sandbox": netns}


def _is_expressible(version: str, route: PlannedRoute) -> bool:
    """Return whether a result can contain the route: no `unreachable` ones, and before 1.1.0 only the main table."""
    return not route.unreachable and (version >= _MTU_AND_TABLE_VERSION or route.table == MAIN_TABLE)


def _build_route(version: str, route: PlannedRoute) -> Json:
    gateway = {"gw": format_address(route.to.version, route.gateway)} if route.gateway else {}
    table = {"table": route.table} if version >= _MTU_AND_TABLE_VERSION else {}
    return {"dst": str(route.to), **gateway, **table}
