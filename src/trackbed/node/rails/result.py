"""The result of a successful ADD (CNI specification, section 5), with one interface for each rail.

CNI_IFNAME names the attachment, not an interface: one call attaches all rails, and each interface is named after its
rail. In a chain, Trackbed's interfaces, addresses and routes follow those of the preceding plugins.
"""

from collections.abc import Iterator

from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.plan import CommonPlan
from trackbed.fabric.plan.routes import MAIN_TABLE, PlannedRoute, iter_routes
from trackbed.node.rails.attachment import Attachment, PodAddress, PodPort
from trackbed.node.rails.protocol import Json

_UNNAMED_FAMILY_VERSION = "1.0.0"
"""The first CNI version whose result does not say of which IP version an address is."""
_MTU_AND_TABLE_VERSION = "1.1.0"
"""The first CNI version whose result has the MTU of an interface and the table of a route."""


def build_result(cni_version: str, attachment: Attachment, common: CommonPlan, previous_result: Json | None) -> Json:
    """Return the result of an attachment in the format of `cni_version`, appended to the previous result."""
    preceding = previous_result or {}
    first = len(preceding.get("interfaces") or [])
    added = {
        "interfaces": [_build_interface(cni_version, port, attachment.netns) for port in attachment.ports],
        "ips": [
            _build_address(cni_version, address, number)
            for number, port in enumerate(attachment.ports, first)
            for address in port.addresses
        ],
        "routes": [
            _build_route(cni_version, route)
            for _, route in iter_pod_routes(attachment, common)
            if _is_expressible(cni_version, route)
        ],
    }
    merged = {field: [*(preceding.get(field) or []), *entries] for field, entries in added.items()}
    return {**preceding, "cniVersion": cni_version, **merged}


def list_planned_ports(attachment: Attachment, common: CommonPlan) -> list[PodPort]:
    """Return the ports on rails that the plan has: it may have fewer than when the pod began, which keeps its ports."""
    return [port for port in attachment.ports if port.rail < len(common.rails)]


def iter_pod_routes(attachment: Attachment, common: CommonPlan) -> Iterator[tuple[int, PlannedRoute]]:
    """Yield the rail and the planned route, for all routes of an attachment. See `list_planned_ports`."""
    for port in list_planned_ports(attachment, common):
        first = port.rail == attachment.first_rail
        for address in port.addresses:
            for route in iter_routes(common, port.rail, address.plan, carries_supernet=first):
                yield port.rail, route


def _build_interface(cni_version: str, port: PodPort, netns_path: str) -> Json:
    mtu = {"mtu": port.mtu_bytes} if cni_version >= _MTU_AND_TABLE_VERSION else {}
    return {"name": port.name, "mac": port.mac, **mtu, "sandbox": netns_path}


def _build_address(cni_version: str, address: PodAddress, interface: int) -> Json:
    family = {} if cni_version >= _UNNAMED_FAMILY_VERSION else {"version": str(address.plan.version)}
    gateway = {"gateway": address.gateway} if address.gateway else {}
    return {**family, "address": address.text, **gateway, "interface": interface}


def _is_expressible(cni_version: str, route: PlannedRoute) -> bool:
    """Return whether a result can contain the route: no `unreachable` ones, and before 1.1.0 only the main table."""
    return not route.unreachable and (cni_version >= _MTU_AND_TABLE_VERSION or route.table == MAIN_TABLE)


def _build_route(cni_version: str, route: PlannedRoute) -> Json:
    gateway = {"gw": format_address(route.to.version, route.gateway)} if route.gateway else {}
    table = {"table": route.table} if cni_version >= _MTU_AND_TABLE_VERSION else {}
    return {"dst": str(route.to), **gateway, **table}
