"""Kind route: the tables hold the planned routes and nothing stale.

A route is as planned if table, destination, type, port, gateway and source are; its metric and who made it (networkd,
NetworkManager after a reboot) do not matter.

Ours to remove: routes with Trackbed's protocol number anywhere, and any route over a port in the tables of the rails. A
route over a port to a planned destination is replaced, whoever made it. All other routes are strangers' and stay: where
one stands in the way, that is said and nothing is done.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from trackbed.fabric.model.ranges import text
from trackbed.fabric.plan.routes import MAIN_TABLE
from trackbed.host.change import NOTHING, Change, refused, stale, wanted
from trackbed.host.kinds.view import View
from trackbed.host.setting import PROTOCOL, RouteOn, Setting
from trackbed.kernel.netlink.addresses import FAMILY
from trackbed.kernel.netlink.routes import (
    RT_SCOPE_LINK,
    RT_SCOPE_UNIVERSE,
    RTN_UNICAST,
    RTN_UNREACHABLE,
    Route,
    add_route,
    delete_route,
    replace_route,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEFAULT_METRIC: dict[int, int] = {socket.AF_INET: 0, socket.AF_INET6: 1024}
"""What a route without metric gets (IP6_RT_PRIO_USER of include/uapi/linux/ipv6_route.h)."""


def compare(setting: Setting, want: RouteOn, view: View) -> Change | None:
    """The route that is missing, or leads elsewhere."""
    planned = _planned(want, view)
    rivals = [have for have in view.state.routes if _key(have) == _key(planned)]
    if any(_equal(have, planned) for have in rivals):
        return None
    every = [_planned(w, view) for w in _wants(view)]
    rivals = [have for have in rivals if not any(_equal(have, other) for other in every)]
    what, described = f"route to {want.route.to} in {_table(want.route.table)}", _text(planned, view)
    in_the_way = [have for have in rivals if have.metric == _DEFAULT_METRIC[planned.family]]
    foreign = next((have for have in in_the_way if not _replaceable(have, view)), None)
    if foreign:
        advice = (
            f"a route that is not Trackbed's stands in the way: {_text(foreign, view)}; remove it, or plan other tables"
        )
        return refused(setting, what, _text(foreign, view), described, advice)
    mine = [have for have in rivals if _replaceable(have, view)]
    first = replace_route(planned) if in_the_way else add_route(planned)
    rest = tuple(delete_route(have) for have in mine if have not in in_the_way[:1])
    return wanted(setting, what, ", ".join(_text(have, view) for have in mine) or NOTHING, described, (first, *rest))


def unplanned(view: View) -> Iterator[Change]:
    """Routes that are ours, are planned no more, and are not replaced by a planned one."""
    every = [_planned(want, view) for want in _wants(view)]
    keys = {_key(planned) for planned in every if not any(_equal(have, planned) for have in view.state.routes)}
    for have in view.state.routes:
        if not _ours(have, view) or _key(have) in keys or any(_equal(have, planned) for planned in every):
            continue
        version = 4 if have.family == socket.AF_INET else 6
        what = f"old route to {text(version, have.dst)}/{have.prefix} in {_table(have.table)}"
        yield stale("routing", view.rail_of(have.oif), what, _text(have, view), (delete_route(have),))


def _wants(view: View) -> Iterator[RouteOn]:
    """Planned routes of ports that are there; an unreachable one needs none, and stays while a pod has the port."""
    for setting in view.settings:
        want = setting.want
        if isinstance(want, RouteOn) and (want.netdev in view.ports or want.route.unreachable):
            yield want


def _planned(want: RouteOn, view: View) -> Route:
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


def _key(route: Route) -> tuple[int, int, int, int]:
    return route.family, route.table, route.dst, route.prefix


def _equal(have: Route, planned: Route) -> bool:
    same = _key(have) == _key(planned) and have.type == planned.type
    if planned.type == RTN_UNREACHABLE:
        return same  # IPv6 shows unreachable routes on the loopback interface
    return same and (have.oif, have.gateway, have.prefsrc) == (planned.oif, planned.gateway, planned.prefsrc)


def _ours(route: Route, view: View) -> bool:
    in_own_table = route.table in view.tables and (route.oif in view.indexes or route.type == RTN_UNREACHABLE)
    return route.protocol == PROTOCOL or in_own_table


def _replaceable(route: Route, view: View) -> bool:
    """In the way of a planned route, a route of anybody over a port of ours gives way."""
    return _ours(route, view) or route.oif in view.indexes


def _table(table: int) -> str:
    return "table main" if table == MAIN_TABLE else f"table {table}"


def _text(route: Route, view: View) -> str:
    if route.type == RTN_UNREACHABLE:
        return "unreachable"
    version = 4 if route.family == socket.AF_INET else 6
    via = f"via {text(version, route.gateway)} " if route.gateway else ""
    source = f" src {text(version, route.prefsrc)}" if route.prefsrc else ""
    return f"{via}dev {_device(route, view)}{source}"


def _device(route: Route, view: View) -> str:
    planned = next((name for name, link in view.ports.items() if link.index == route.oif), None)
    return planned or view.state.named(route.oif)
