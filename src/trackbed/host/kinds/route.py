"""Kind route: the tables hold the planned routes and nothing stale.

A route is as planned if table, destination, type, port, gateway and source are; its metric and who made it (networkd,
NetworkManager after a reboot) do not matter.

Ours to remove: routes with Trackbed's protocol number anywhere, and any route over a port in the tables of the rails. A
route over a port to a planned destination is replaced, whoever made it. All other routes are strangers' and stay: where
one stands in the way, that is said and nothing is done.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import NamedTuple

from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.routes import MAIN_TABLE, PlannedRoute, PlannedRule
from trackbed.host.change import NOTHING, Change, advise, fulfil, remove
from trackbed.host.kinds.entries import KernelTable, encode_body, restore_entries
from trackbed.host.kinds.kind import Kept, Kind
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import PROTOCOL, Setting
from trackbed.kernel.netlink.addresses import FAMILY
from trackbed.kernel.netlink.codec import NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Message
from trackbed.kernel.netlink.routes import (
    RT_SCOPE_LINK,
    RT_SCOPE_UNIVERSE,
    RTM_DELROUTE,
    RTM_NEWROUTE,
    RTN_UNICAST,
    RTN_UNREACHABLE,
    Route,
    add_route,
    delete_route,
    identify_route,
    list_routes,
    replace_route,
)

_DEFAULT_METRIC: dict[int, int] = {socket.AF_INET: 0, socket.AF_INET6: 1024}
"""What a route without metric gets (IP6_RT_PRIO_USER of include/uapi/linux/ipv6_route.h)."""
_TABLE = KernelTable(
    "routes",
    list_routes,
    identify_route,
    RTM_DELROUTE,
    (
        lambda body: Message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, body),
        lambda body: Message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, body),
    ),
)
"""Two passes: a route by a gateway needs the route to the gateway, which may come later in the list; and where an IPv6
address was removed, the kernel kept the routes that used it as their source but removed the source from them."""


class Want(NamedTuple):
    """This route uses interface `netdev` (an unreachable route only belongs to it)."""

    netdev: str
    route: PlannedRoute

    @property
    def version(self) -> int:
        """The IP version."""
        return self.route.to.version

    def __str__(self) -> str:
        return f"route to {self.route.to} in table {self.route.table} over {self.netdev}"


def compare(setting: Setting, want: Want, view: View) -> Change | None:
    """Return the change of a route that is missing or differs."""
    planned = _plan(want, view)
    rivals = [route for route in view.state.routes if _get_key(route) == _get_key(planned)]
    if any(_is_equal(route, planned) for route in rivals):
        return None
    every = [_plan(other, view) for other in _list_wants(view)]
    rivals = [route for route in rivals if not any(_is_equal(route, other) for other in every)]
    subject, want_text = f"route to {want.route.to} in {_format_table_name(want.route.table)}", _to_text(planned, view)
    in_the_way = [route for route in rivals if route.metric == _DEFAULT_METRIC[planned.family]]
    if foreign := next((route for route in in_the_way if not _is_replaceable(route, view)), None):
        have = _to_text(foreign, view)
        advice = f"a route that is not Trackbed's stands in the way: {have}; remove it, or plan other tables"
        return advise(setting, subject, have, want_text, advice)
    mine = [route for route in rivals if _is_replaceable(route, view)]
    first = replace_route(planned) if in_the_way else add_route(planned)
    old = tuple(delete_route(route) for route in mine if route not in in_the_way[:1])
    return fulfil(
        setting, subject, ", ".join(_to_text(route, view) for route in mine) or NOTHING, want_text, (first, *old)
    )


def find_stale(view: View) -> Iterator[Change]:
    """Yield the removal of Trackbed's routes that are neither planned nor replaced by a planned route."""
    every = [_plan(want, view) for want in _list_wants(view)]
    keys = {_get_key(planned) for planned in every if not any(_is_equal(route, planned) for route in view.state.routes)}
    for route in view.state.routes:
        if not _is_ours(route, view) or _get_key(route) in keys or any(_is_equal(route, planned) for planned in every):
            continue
        version = 4 if route.family == socket.AF_INET else 6
        subject = (
            f"old route to {format_address(version, route.dst)}/{route.prefix} in {_format_table_name(route.table)}"
        )
        yield remove("routing", view.find_rail(route.oif), subject, _to_text(route, view), (delete_route(route),))


def keep(view: View) -> Kept:
    """Return the routes over ports, those in the tables of the rails, and all of Trackbed's."""
    tables, indexes = view.read_once(_list_tables), view.indexes
    mine = [
        route
        for route in view.state.routes
        if route.table in tables or route.protocol == PROTOCOL or not indexes.isdisjoint((route.oif, *route.hops))
    ]
    return {"routes": [encode_body(route) for route in mine]}


def restore(machine: Machine, kept: Kept) -> Iterator[str]:
    """Restore the routes."""
    return restore_entries(machine, _TABLE, kept["routes"])


def _list_tables(view: View) -> frozenset[int]:
    """List the route tables that belong to rails."""
    tables = [rule.table for rule in view.list_wants(PlannedRule)] + [
        want.route.table for want in view.list_wants(Want)
    ]
    return frozenset(tables) - {MAIN_TABLE}


def _list_wants(view: View) -> list[Want]:
    """List the planned routes of existing ports; an unreachable route needs no port (a pod may hold it)."""
    return [want for want in view.list_wants(Want) if want.netdev in view.ports or want.route.unreachable]


def _plan(want: Want, view: View) -> Route:
    route, family = want.route, FAMILY[want.route.to.version]
    near = family == socket.AF_INET and not route.gateway and not route.unreachable
    return Route(
        family=family,
        table=route.table,
        dst=route.to.base,
        prefix=route.to.prefix,
        oif=0 if route.unreachable else view.ports[want.netdev].index,
        gateway=route.gateway,
        prefsrc=route.source,
        protocol=PROTOCOL,
        scope=RT_SCOPE_LINK if near else RT_SCOPE_UNIVERSE,
        type=RTN_UNREACHABLE if route.unreachable else RTN_UNICAST,
    )


def _get_key(route: Route) -> tuple[int, int, int, int]:
    return route.family, route.table, route.dst, route.prefix


def _is_equal(have: Route, planned: Route) -> bool:
    is_same = _get_key(have) == _get_key(planned) and have.type == planned.type
    if planned.type == RTN_UNREACHABLE:
        return is_same  # IPv6 shows unreachable routes on the loopback interface
    return is_same and (have.oif, have.gateway, have.prefsrc) == (planned.oif, planned.gateway, planned.prefsrc)


def _is_ours(route: Route, view: View) -> bool:
    tables = view.read_once(_list_tables)
    in_own_table = route.table in tables and (route.oif in view.indexes or route.type == RTN_UNREACHABLE)
    return route.protocol == PROTOCOL or in_own_table


def _is_replaceable(route: Route, view: View) -> bool:
    """Return whether a planned route may replace this route: it uses one of our ports."""
    return _is_ours(route, view) or route.oif in view.indexes


def _format_table_name(table: int) -> str:
    return "table main" if table == MAIN_TABLE else f"table {table}"


def _to_text(route: Route, view: View) -> str:
    if route.type == RTN_UNREACHABLE:
        return "unreachable"
    version = 4 if route.family == socket.AF_INET else 6
    via = f"via {format_address(version, route.gateway)} " if route.gateway else ""
    source = f" src {format_address(version, route.prefsrc)}" if route.prefsrc else ""
    return f"{via}dev {_name_device(route, view)}{source}"


def _name_device(route: Route, view: View) -> str:
    planned = next((name for name, link in view.ports.items() if link.index == route.oif), None)
    return planned or view.state.find_name(route.oif)


KIND = Kind("route", (Want,), compare, find_stale, keep, restore, is_grouped=False)
