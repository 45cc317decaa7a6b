"""Routes and policy rules of an interface or a VRF in netplan.

routes: [{to: default, via: 10.1.0.1, table: 101, metric: 50}]
routing-policy: [{from: 10.1.0.16, table: 101, priority: 1010}]
"""

from collections.abc import Iterator

from trackbed.fabric.importers.interface import StaticRoute, StaticRule
from trackbed.fabric.importers.netplan.files import Tree
from trackbed.fabric.importers.policy import parse_rule
from trackbed.fabric.importers.tree import find_place, get_scalar, get_text, list_items
from trackbed.fabric.importers.values import ValueParser, parse_address_or_zero
from trackbed.fabric.model.source import Scalar

_MAIN_TABLES = {"", "254", "main"}
_ROUTE_KEYS = {"to", "via", "table", "type", "from", "scope", "on-link"}


def read_routes(parser: ValueParser, entry: Tree, table: str = "") -> Iterator[StaticRoute]:
    """Yield the routes of an interface; `table` is that of its VRF, in which its routes are."""
    for field in ("gateway4", "gateway6"):
        gateway = get_scalar(entry, field)
        if gateway and gateway.text:
            route = parser.parse_route("default", gateway.text, gateway.place, in_main_table=not table)
            if route:
                yield route._replace(table=table)
    for item in list_items(entry, "routes"):
        destination = get_scalar(item, "to") if isinstance(item, dict) else None
        if destination is None or destination.text is None:
            parser.add_problem("bad-route", "a route must be a mapping with `to`", find_place(item))
            continue
        own_table = get_text(item, "table") or table
        route = parser.parse_route(
            destination.text,
            get_text(item, "via"),
            (get_scalar(item, "via") or destination).place,
            in_main_table=own_table in _MAIN_TABLES,
        )
        if route:
            yield route._replace(
                table="" if route.in_main_table else own_table,
                kind=get_text(item, "type") or "unicast",
                source=parse_address_or_zero(get_text(item, "from")),
                extras=_list_extras(item, _ROUTE_KEYS),
            )


def read_rules(parser: ValueParser, entry: Tree, table: str = "") -> Iterator[StaticRule]:
    """Yield the policy rules of an interface; `table` is that of its VRF."""
    for item in list_items(entry, "routing-policy"):
        place = find_place(item)
        if not isinstance(item, dict) or place is None:
            parser.add_problem("bad-rule", "a rule must be a mapping, as in {from: 10.0.0.1, table: 101}", place)
            continue
        options = {key: value.text or "" for key, value in item.items() if isinstance(value, Scalar)}
        rule = parse_rule(parser, {"table": table} | options, place)
        if rule:
            yield rule


def _list_extras(item: Tree, known: set[str]) -> tuple[str, ...]:
    """Return the keys of a route that a plan does not have, with their values."""
    return tuple(
        f"{key} {value.text}"
        for key, value in item.items()
        if key not in known and isinstance(value, Scalar) and value.text
    )
