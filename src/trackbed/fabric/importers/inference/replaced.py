"""Routes, tables, rules, VRFs and leases of the files that the plan does not have.

The messages of a rail name its own gateway, subnet and address by these words, so that they are the same for all hosts
and are merged into one.
"""

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.fabric.importers.inference.site import RailSite
from trackbed.fabric.importers.interface import Interface, StaticRoute, StaticRule
from trackbed.fabric.importers.result import NOTE, HostProblem
from trackbed.fabric.model.ranges import BITS, V4, Range, format_address
from trackbed.fabric.plan.plan import AddressPlan, CommonPlan, Plan
from trackbed.fabric.plan.routes import MAIN_TABLE, PlannedRoute, build_fence_rule, build_source_rule, iter_routes


class _PlannedPort(NamedTuple):
    """A port whose planned address is that of the files, in one IP version."""

    interface: Interface
    rail: int
    address: AddressPlan
    common: CommonPlan
    gateway: int
    """The gateway of the files: one that is not the plan's is reported for itself."""

    @property
    def table(self) -> int:
        """The table of the port's rail."""
        return self.common.rails[self.rail].table

    @property
    def label(self) -> str:
        """The port for messages."""
        return f"rail {self.rail} ({self.interface.label})"


def iter_replaced(site: RailSite, plan: Plan) -> Iterator[HostProblem]:
    """Yield what the files of ports with their planned addresses have, and the plan has not or otherwise."""
    for node in plan.nodes:
        for port in node.ports:
            interface = site.ports[node.name][port.rail]
            for address in port.addresses:
                current = site.find_address(node.name, port.rail, address.version)
                if address.version in site.ranges and str(current) == str(address):
                    gateway = site.find_gateway(node.name, port.rail, address.version) or 0
                    yield from _iter_port(_PlannedPort(interface, port.rail, address, plan.common, gateway))
            yield from _iter_vrf(interface, port.rail, plan.common)


def iter_leases(site: RailSite) -> Iterator[HostProblem]:
    """Yield the ports of rails that have leases beside their static addresses: a plan turns DHCP off."""
    for ports in site.ports.values():
        for rail, interface in ports.items():
            if interface.dhcp:
                message = f"rail {rail} ({interface.label}) takes leases too; a plan turns DHCP off"
                yield HostProblem("lease-replaced", message, interface.host, interface.place, NOTE)


def _iter_vrf(interface: Interface, rail: int, common: CommonPlan) -> Iterator[HostProblem]:
    if interface.vrf:
        tables = {route.table for route in interface.routes if route.table}
        table = f" (table {tables.pop()})" if len(tables) == 1 else ""
        message = (
            f"rail {rail} ({interface.label}) is in VRF {interface.vrf}{table}: a plan has no VRFs, and a rule for the "
            f"port's address with table {common.rails[rail].table} in its place; take the port out of the VRF"
        )
        yield HostProblem("vrf-replaced", message, interface.host, interface.place)


def _iter_port(port: _PlannedPort) -> Iterator[HostProblem]:
    planned = list(iter_routes(port.common, port.rail, port.address, carries_supernet=True))
    reported = {port.gateway} - {0, port.address.gateway}
    for route in port.interface.routes:
        if route.via in reported or route.to.version != port.address.version:
            continue
        if reason := _explain_route(port, route, planned):
            message = f"{port.label}: the plan replaces {_describe_route(port, route)}: {reason}"
            yield HostProblem("route-replaced", message, port.interface.host, route.place)
    for rule in port.interface.rules:
        if (rule.version or V4) == port.address.version and (reason := _explain_rule(port, rule)):
            message = f"{port.label}: the plan replaces {_describe_rule(port, rule)}: {reason}"
            yield HostProblem("rule-replaced", message, port.interface.host, rule.place)


def _explain_route(port: _PlannedPort, route: StaticRoute, planned: list[PlannedRoute]) -> str | None:
    """Return why a route of the files is not in the plan; None if it is, or another planned route covers it."""
    table = MAIN_TABLE if route.in_main_table else port.table
    if route.extras:
        return f"it has its route without {', '.join(route.extras)}"
    if route.source not in {0, port.address.address}:
        return "it has the port's address as the source"
    if not any(_covers(entry, route) for entry in planned):
        return _explain_missing(port, route)
    if not route.in_main_table and route.table not in {"", str(port.table)}:
        return f"it has it in table {port.table}; correct what refers to the other table, or write routing.tableBase"
    return (
        None
        if any(_covers(entry, route) for entry in planned if entry.table == table or entry.to.prefix == 0)
        else (f"it has it in table {port.table} only")
    )


def _covers(planned: PlannedRoute, route: StaticRoute) -> bool:
    """Return whether a planned route does what a route of the files does, for its destination or more."""
    if route.kind != "unicast":
        return planned.unreachable and route.kind == "unreachable" and planned.to == route.to
    if planned.unreachable or planned.gateway != route.via:
        return False
    if route.in_main_table and route.to.prefix == 0:
        return False
    return planned.to.prefix <= route.to.prefix and route.to.base in planned.to


def _explain_missing(port: _PlannedPort, route: StaticRoute) -> str:
    if route.kind != "unicast":
        return f"it has no route of type {route.kind} there"
    if route.in_main_table and route.to.prefix == 0:
        return "the default route of a host does not lead over a rail; give another interface the default route"
    if route.via and route.via != port.address.gateway:
        gateway = "its gateway is another" if port.address.gateway else "its rails have no gateway"
        return f"{gateway}; write routes by further routers in a file of their own"
    return "it leads to no rail; keep it in a file of its own if it is needed"


def _describe_route(port: _PlannedPort, route: StaticRoute) -> str:
    via = (
        ""
        if not route.via
        else " by its gateway"
        if route.via == port.address.gateway
        else f" by {format_address(route.to.version, route.via)}"
    )
    table = "" if route.in_main_table else f" in table {route.table}" if route.table else ""
    kind = "" if route.kind == "unicast" else f"{route.kind} "
    return f"the {kind}route to {_describe_range(port, route.to)}{via}{table}"


def _describe_range(port: _PlannedPort, to: Range) -> str:
    if to.prefix == 0:
        return "everywhere"
    if to == port.address.subnet:
        return "its subnet"
    host_range = Range(to.version, port.address.address, BITS[to.version])
    return "its address" if to == host_range else str(to)


def _describe_rule(port: _PlannedPort, rule: StaticRule) -> str:
    source = f" from {_describe_range(port, rule.source)}" if rule.source else ""
    source += f" not to {rule.unless_to}" if rule.unless_to else ""
    extras = "".join(f", {extra}" for extra in rule.extras)
    priority = "" if rule.priority is None else f" with priority {rule.priority}"
    return f"the rule{source}{extras} for table {rule.table or 'main'}{priority}"


def _explain_rule(port: _PlannedPort, rule: StaticRule) -> str | None:
    """Return why a rule of the files is not in the plan; None if it is."""
    fence = build_fence_rule(port.common, port.address.version)
    if rule.unless_to and fence:
        is_fence = (fence.unless_to, fence.priority) == (rule.unless_to, rule.priority)
        return None if is_fence else f"its rule is not to {fence.unless_to}, with priority {fence.priority}"
    planned = build_source_rule(port.common, port.rail, port.address)
    if rule.source != planned.source or rule.extras:
        return f"its rule asks for the port's address only, for table {planned.table}"
    if rule.table != str(planned.table):
        return f"its rule is for table {planned.table}; correct what refers to the other table"
    if rule.priority not in {None, planned.priority}:
        return f"its rule has priority {planned.priority}; write routing.rulePriority if another rule stands between"
    return None
