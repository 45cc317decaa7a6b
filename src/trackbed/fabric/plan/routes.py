"""The routes and rules of one address on one rail: the same on a host's port and inside a pod.

table 1000+rail   connected subnet, then default by the gateway (or the rail's range and `unreachable` where rails are
                  isolated; without gateway only `unreachable`, since an empty or partial table means "fall through")
rule 1000+rail    from <address> lookup that table
rule 999          not to <supernet> lookup main: the fence, so nothing but rail traffic ever takes a rail's default
table main        the rail's range by the rail's gateway; on the first rail the supernet, for sockets bound to nothing
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trackbed.fabric.model.ranges import BITS, V4, Range

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.fabric.plan.plan import Addressed, Common

MAIN_TABLE = 254
"""RT_TABLE_MAIN of include/uapi/linux/rtnetlink.h."""


class Route(NamedTuple):
    """One route; `gateway` 0 means on the link, `source` 0 none. `unreachable` has neither device nor gateway."""

    table: int
    to: Range
    gateway: int = 0
    source: int = 0
    unreachable: bool = False


class Rule(NamedTuple):
    """One policy rule; exactly one of `source` and `unless_to` is given."""

    priority: int
    table: int
    source: Range | None = None
    unless_to: Range | None = None


def routes(common: Common, rail: int, own: Addressed, *, first: bool) -> Iterator[Route]:
    """All routes of one address; `first` for the lowest rail of the node or pod, which carries the supernet."""
    table, everything = common.rails[rail].table, Range(own.version, 0, 0)
    yield Route(table, own.subnet, source=own.address)
    ours = common.rails[rail].v4 if own.version == V4 else common.rails[rail].v6
    wider = ours is not None and ours != own.subnet
    if own.gateway and common.cross_rail == "routed":
        yield Route(table, everything, own.gateway, own.address)
    else:
        if own.gateway and wider and ours:
            yield Route(table, ours, own.gateway, own.address)
        yield Route(table, everything, unreachable=True)
    if not own.gateway:
        return
    if wider and ours:
        yield Route(MAIN_TABLE, ours, own.gateway, own.address)
    supernet = common.supernet(own.version)
    if first and supernet and supernet != ours and common.cross_rail == "routed":
        yield Route(MAIN_TABLE, supernet, own.gateway, own.address)


def rule(common: Common, rail: int, own: Addressed) -> Rule:
    """The source rule of one address."""
    source = Range(own.version, own.address, BITS[own.version])
    return Rule(common.rule_priority + rail, common.rails[rail].table, source=source)


def fence(common: Common, version: int) -> Rule | None:
    """The one rule that keeps other traffic off the rails; None where no addresses are planned."""
    supernet = common.supernet(version)
    return Rule(common.rule_priority - 1, MAIN_TABLE, unless_to=supernet) if supernet else None
