"""Planned addresses, routes and rules as entries of the kernel's tables, and what differs in an entry of these tables.

Ports of hosts and interfaces of pods share this. The mark of an entry's origin (`protocol`) is ignored: networkd or
NetworkManager may have added the entry after a reboot, and the kernel treats packets the same.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from typing import TypeVar

from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.plan import AddressPlan
from trackbed.fabric.plan.routes import PlannedRoute, PlannedRule
from trackbed.kernel.netlink.addresses import (
    FAMILY,
    IFA_F_DADFAILED,
    IFA_F_NODAD,
    IFA_F_PERMANENT,
    IFA_F_TENTATIVE,
    Address,
)
from trackbed.kernel.netlink.extras import read_address_extras, read_route_extras, read_rule_extras
from trackbed.kernel.netlink.routes import RT_SCOPE_LINK, RT_SCOPE_UNIVERSE, RTN_UNICAST, RTN_UNREACHABLE, Route
from trackbed.kernel.netlink.rules import PolicyRule

E = TypeVar("E", Address, Route, PolicyRule)

DEFAULT_METRIC: dict[int, int] = {socket.AF_INET: 0, socket.AF_INET6: 1024}
"""The metric of a route without a metric (IP6_RT_PRIO_USER of include/uapi/linux/ipv6_route.h)."""
_ORIGIN = "protocol"
_STATE_FLAGS = IFA_F_DADFAILED | IFA_F_TENTATIVE | IFA_F_PERMANENT
"""Flags that the kernel sets by itself; an address that is not permanent has finite lifetimes, which are extras."""
_ADDRESS_FIELDS = frozenset({"src", "dst", "gateway", "prefsrc", "address"})


def to_address(address: AddressPlan, index: int, protocol: int) -> Address:
    """Return a planned address of interface `index`; an IPv6 one can be bound at once (no duplicate detection)."""
    family = FAMILY[address.version]
    flags = IFA_F_NODAD if family == socket.AF_INET6 else 0
    return Address(index, family, address.address, address.prefix, flags=flags, protocol=protocol)


def to_route(route: PlannedRoute, index: int, protocol: int) -> Route:
    """Return a planned route over interface `index`; an unreachable route has none."""
    family = FAMILY[route.to.version]
    near = family == socket.AF_INET and not route.gateway and not route.unreachable
    return Route(
        family=family,
        table=route.table,
        dst=route.to.base,
        prefix=route.to.prefix,
        oif=0 if route.unreachable else index,
        gateway=route.gateway,
        prefsrc=route.source,
        protocol=protocol,
        scope=RT_SCOPE_LINK if near else RT_SCOPE_UNIVERSE,
        type=RTN_UNREACHABLE if route.unreachable else RTN_UNICAST,
    )


def to_rule(rule: PlannedRule, protocol: int) -> PolicyRule:
    """Return a planned rule. Raises ValueError if it selects nothing."""
    selector = rule.source or rule.unless_to
    if selector is None:
        raise ValueError(f"rule {rule.priority} has no selector")
    family, base, prefix = FAMILY[selector.version], selector.base, selector.prefix
    if rule.source:
        return PolicyRule(family, rule.priority, rule.table, src=base, src_prefix=prefix, protocol=protocol)
    return PolicyRule(family, rule.priority, rule.table, dst=base, dst_prefix=prefix, invert=True, protocol=protocol)


def list_address_differences(present: Address, planned: Address) -> tuple[str, ...]:
    """Return in words what differs in a listed address from a planned one; nothing if they are equal."""
    settled = replace(present, flags=present.flags & ~_STATE_FLAGS)
    return tuple(_iter_differences(settled, planned, read_address_extras(present.body)))


def list_route_differences(present: Route, planned: Route, ignored: Collection[str] = ()) -> tuple[str, ...]:
    """Return in words what differs in a listed route from a planned one, without the `ignored` fields.

    Whether its port has a carrier is ignored too.
    """
    settled = replace(present, linkdown=False)
    if settled.metric == DEFAULT_METRIC[settled.family]:
        settled = replace(settled, metric=0)
    if settled.type == RTN_UNREACHABLE:
        settled = replace(settled, oif=0)  # IPv6 shows unreachable routes on the loopback interface
    return tuple(_iter_differences(settled, planned, read_route_extras(present.body), ignored))


def list_rule_differences(present: PolicyRule, planned: PolicyRule) -> tuple[str, ...]:
    """Return in words what differs in a listed rule from a planned one; nothing if they are equal."""
    return tuple(_iter_differences(present, planned, read_rule_extras(present.body)))


def _iter_differences(
    present: E, planned: E, extras: Mapping[str, str], ignored: Collection[str] = ()
) -> Iterator[str]:
    for name in (field.name for field in fields(planned) if field.compare):
        have, want = getattr(present, name), getattr(planned, name)
        if have != want and name != _ORIGIN and name not in ignored:
            yield f"{name} is {_format_value(name, have, present)}, was {_format_value(name, want, planned)}"
    for name, value in extras.items():
        yield f"{name} is {value}, was not set"


def _format_value(name: str, value: object, entry: Address | Route | PolicyRule) -> str:
    if name in _ADDRESS_FIELDS and isinstance(value, int):
        return format_address(4 if entry.family == socket.AF_INET else 6, value) if value else "none"
    return str(value) if value not in {"", ()} else "none"
