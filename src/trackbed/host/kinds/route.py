"""Kind route: the route tables of the rails have the planned routes and no stale routes.

A route is as planned if it differs in nothing but its metric and its origin (networkd or NetworkManager after a reboot;
`planned_entries`).

Trackbed removes routes with its protocol number in any table, and all routes over ports in the tables of the rails. A
route over a port to a planned destination is replaced, whatever its origin. All other routes are kept; if one of them
conflicts with a planned route, the user is advised and nothing is changed.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.routes import MAIN_TABLE, PlannedRoute, PlannedRule
from trackbed.host.change import ABSENT_VALUE, Change, build_change, build_manual_change, build_removal
from trackbed.host.kinds.entries import KernelTable, restore_entries
from trackbed.host.kinds.kind import Kind, UndoData, keep_pods
from trackbed.host.kinds.planned_entries import DEFAULT_METRIC, list_route_differences, to_route
from trackbed.host.kinds.view import View
from trackbed.host.kinds.writers import find_connection_managers
from trackbed.host.machine import Machine
from trackbed.host.setting import PROTOCOL, Setting
from trackbed.kernel.netlink.codec import NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Message
from trackbed.kernel.netlink.routes import (
    RTM_DELROUTE,
    RTM_NEWROUTE,
    RTN_UNREACHABLE,
    RTPROT_KERNEL,
    Route,
    build_add_route,
    build_delete_route,
    build_replace_route,
    identify_route,
    list_routes,
)

_IGNORED = frozenset({"metric"})
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
"""The first pass may fail for routes whose gateway is reached by a later route. The second pass also replaces IPv6
routes: when an address is removed, the kernel keeps the routes that used it as source, but clears their source."""


class Want(NamedTuple):
    """A planned route over interface `netdev`; an unreachable route merely belongs to the rail of that interface."""

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
    planned = _to_route(want, view)
    rivals = [route for route in view.state.routes if _get_destination_key(route) == _get_destination_key(planned)]
    if any(_matches_plan(route, planned) for route in rivals):
        return None
    every = [_to_route(other, view) for other in _list_wants(view)]
    rivals = [route for route in rivals if not any(_matches_plan(route, other) for other in every)]
    subject, want_text = (
        f"route to {want.route.to} in {_format_table_name(want.route.table)}",
        _format_route(planned, view),
    )
    in_the_way = [route for route in rivals if route.metric == DEFAULT_METRIC[planned.family]]
    if foreign := next((route for route in in_the_way if not _is_replaceable(route, view)), None):
        have = _format_route(foreign, view)
        advice = f"a route that is not Trackbed's stands in the way: {have}; remove it, or plan other tables"
        return build_manual_change(setting, subject, have, want_text, advice)
    mine = [route for route in rivals if _is_replaceable(route, view)]
    first = build_replace_route(planned) if in_the_way else build_add_route(planned)
    old = tuple(build_delete_route(route) for route in mine if route not in in_the_way[:1])
    return build_change(
        setting,
        subject,
        ", ".join(_format_rival(route, planned, view) for route in mine) or ABSENT_VALUE,
        want_text,
        (first, *old),
    )


def find_stale(view: View) -> Iterator[Change]:
    """Yield the removal of Trackbed's routes that are neither planned nor replaced by a planned route."""
    every = [_to_route(want, view) for want in _list_wants(view)]
    keys = {
        _get_destination_key(planned)
        for planned in every
        if not any(_matches_plan(route, planned) for route in view.state.routes)
    }
    for route in view.state.routes:
        if (
            not _is_managed_route(route, view)
            or _get_destination_key(route) in keys
            or any(_matches_plan(route, planned) for planned in every)
        ):
            continue
        version = 4 if route.family == socket.AF_INET else 6
        subject = (
            f"old route to {format_address(version, route.dst)}/{route.prefix} in {_format_table_name(route.table)}"
        )
        yield build_removal(
            "routing", view.find_rail(route.oif), subject, _format_route(route, view), (build_delete_route(route),)
        )


def count_entries(view: View) -> int:
    """Return the number of routes over ports or with Trackbed's mark, without those added by the kernel."""
    present = [route for route in view.state.routes if route.protocol != RTPROT_KERNEL]
    return sum(_is_replaceable(route, view) for route in present)


def read_undo_data(view: View) -> UndoData:
    """Return routes over ports by interface index; key "" has Trackbed's other routes and others in rails' tables."""
    tables, indexes = view.read_once(_list_tables), view.indexes
    undo_data: dict[str, list[bytes]] = {port: [] for port in ("", *map(str, indexes))}
    for route in view.state.routes:
        port = next((str(index) for index in (route.oif, *route.hops) if index in indexes), "")
        if port or route.table in tables or route.protocol == PROTOCOL:
            undo_data[port].append(route.body)
    return undo_data


def restore(machine: Machine, undo_data: UndoData) -> Iterator[str]:
    """Restore the routes that `read_undo_data` returned; yield failures as text."""
    return restore_entries(machine, _TABLE, chain.from_iterable(undo_data.values()))


def _list_tables(view: View) -> set[int]:
    """List the route tables of the rails."""
    tables = {rule.table for rule in view.list_wants(PlannedRule)}
    return (tables | {want.route.table for want in view.list_wants(Want)}) - {MAIN_TABLE}


def _list_wants(view: View) -> list[Want]:
    """List the planned routes of existing ports; an unreachable route needs no port, which may be in a pod."""
    return [want for want in view.list_wants(Want) if want.netdev in view.ports or want.route.unreachable]


def _to_route(want: Want, view: View) -> Route:
    index = 0 if want.route.unreachable else view.ports[want.netdev].index
    return to_route(want.route, index, PROTOCOL)


def _get_destination_key(route: Route) -> tuple[int, int, int, int]:
    return route.family, route.table, route.dst, route.prefix


def _matches_plan(route: Route, planned_route: Route) -> bool:
    is_same = _get_destination_key(route) == _get_destination_key(planned_route)
    return is_same and not list_route_differences(route, planned_route, _IGNORED)


def _is_managed_route(route: Route, view: View) -> bool:
    tables = view.read_once(_list_tables)
    in_own_table = route.table in tables and (route.oif in view.indexes or route.type == RTN_UNREACHABLE)
    return route.protocol == PROTOCOL or in_own_table


def _is_replaceable(route: Route, view: View) -> bool:
    """Return whether a planned route may replace this route."""
    return _is_managed_route(route, view) or route.oif in view.indexes


def _format_table_name(table: int) -> str:
    return "table main" if table == MAIN_TABLE else f"table {table}"


def _format_route(route: Route, view: View) -> str:
    if route.type == RTN_UNREACHABLE:
        return "unreachable"
    version = 4 if route.family == socket.AF_INET else 6
    via = f"via {format_address(version, route.gateway)} " if route.gateway else ""
    source = f" src {format_address(version, route.prefsrc)}" if route.prefsrc else ""
    return f"{via}dev {_find_device_name(route, view)}{source}"


def _format_rival(route: Route, planned: Route, view: View) -> str:
    """Return the text of a route that a planned one replaces, with what differs if that does not show."""
    text = _format_route(route, view)
    if text != _format_route(planned, view):
        return text
    return f"{text} ({'; '.join(list_route_differences(route, planned, _IGNORED))})"


def _find_device_name(route: Route, view: View) -> str:
    planned = next((name for name, link in view.ports.items() if link.index == route.oif), None)
    return planned or view.state.find_name(route.oif)


KIND = Kind(
    "route",
    (Want,),
    compare,
    find_stale,
    read_undo_data,
    restore,
    undo_data_type=dict[str, tuple[bytes, ...]],
    count_entries=count_entries,
    disrupts_pods=keep_pods,
    find_writers=lambda want, view: find_connection_managers(view, want.netdev),
    is_grouped=False,
)
