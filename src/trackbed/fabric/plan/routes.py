"""Routes and rules of an address on a rail: the same on a host's port and inside a pod.

table 1000+rail   connected subnet, then default by the gateway (or the rail's range and `unreachable` if rails are
                  isolated; without gateway only `unreachable`, since lookup continues after an incomplete table)
rule 1000+rail    from <address> lookup that table
rule 999          not to <supernet> lookup main: the fence, so that only rail traffic uses a rail's default route
table main        the rail's range by the rail's gateway; on the first rail the supernet, for unbound sockets
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.fabric.model.ranges import BITS, V4, Range
from trackbed.fabric.plan.plan import AddressPlan, CommonPlan

MAIN_TABLE = 254
"""RT_TABLE_MAIN of include/uapi/linux/rtnetlink.h."""


class PlannedRoute(NamedTuple):
    """A route; `gateway` 0 means on-link, `source` 0 unset. `unreachable` has neither device nor gateway."""

    table: int
    to: Range
    gateway: int = 0
    source: int = 0
    unreachable: bool = False


class PlannedRule(NamedTuple):
    """A policy rule; exactly one of `source` and `unless_to` is set."""

    priority: int
    table: int
    source: Range | None = None
    unless_to: Range | None = None


def iter_routes(
    common: CommonPlan, rail: int, address: AddressPlan, *, carries_supernet: bool
) -> Iterator[PlannedRoute]:
    """Yield the routes of an address; the lowest rail of a node or pod also carries the supernet's route."""
    table, default = common.rails[rail].table, Range(address.version, 0, 0)
    yield PlannedRoute(table, address.subnet, source=address.address)
    rail_range = common.rails[rail].v4 if address.version == V4 else common.rails[rail].v6
    has_wider_range = rail_range is not None and rail_range != address.subnet
    if address.gateway and common.cross_rail == "routed":
        yield PlannedRoute(table, default, address.gateway, address.address)
    else:
        if address.gateway and has_wider_range and rail_range:
            yield PlannedRoute(table, rail_range, address.gateway, address.address)
        yield PlannedRoute(table, default, unreachable=True)
    if not address.gateway:
        return
    if has_wider_range and rail_range:
        yield PlannedRoute(MAIN_TABLE, rail_range, address.gateway, address.address)
    supernet = common.get_supernet(address.version)
    if carries_supernet and supernet and supernet != rail_range and common.cross_rail == "routed":
        yield PlannedRoute(MAIN_TABLE, supernet, address.gateway, address.address)


def build_source_rule(common: CommonPlan, rail: int, address: AddressPlan) -> PlannedRule:
    """Return the rule that looks up traffic from an address in its rail's table."""
    source = Range(address.version, address.address, BITS[address.version])
    return PlannedRule(common.rule_priority + rail, common.rails[rail].table, source=source)


def build_fence_rule(common: CommonPlan, ip_version: int) -> PlannedRule | None:
    """Return the rule that keeps other traffic off the rails; None if no addresses are planned."""
    supernet = common.get_supernet(ip_version)
    return PlannedRule(common.rule_priority - 1, MAIN_TABLE, unless_to=supernet) if supernet else None
