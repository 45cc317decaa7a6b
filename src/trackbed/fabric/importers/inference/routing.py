"""Numbers of routing tables and priorities of rules that the files of all hosts have in common."""

from collections.abc import Callable, Iterator
from typing import Any

from trackbed.fabric.bounds import RULE_PRIORITY, TABLE_BASE, Bounds
from trackbed.fabric.importers.inference.site import RailSite
from trackbed.fabric.importers.interface import Interface
from trackbed.fabric.model.host import RoutingSpec

Document = dict[str, Any]


def build_routing_fields(site: RailSite) -> Document:
    """Return tableBase and rulePriority if each rail has its table and priority at the same distance from a number."""
    bases = {
        "tableBase": _find_base(site, _iter_tables, TABLE_BASE),
        "rulePriority": _find_base(site, _iter_priorities, RULE_PRIORITY),
    }
    defaults = {"tableBase": RoutingSpec().table_base, "rulePriority": RoutingSpec().rule_priority}
    return {field: str(base) for field, base in bases.items() if base not in {None, defaults[field]}}


def _find_base(site: RailSite, iter_numbers: Callable[[Interface], Iterator[int]], bounds: Bounds) -> int | None:
    bases = {
        number - rail for ports in site.ports.values() for rail, port in ports.items() for number in iter_numbers(port)
    }
    base = bases.pop() if len(bases) == 1 else None
    return base if base is not None and bounds.low <= base <= bounds.high else None


def _iter_tables(port: Interface) -> Iterator[int]:
    texts = [*(route.table for route in port.routes), *(rule.table for rule in port.rules if rule.source)]
    return (int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 11 and text != "254")  # noqa: PLR2004 - 32 bits


def _iter_priorities(port: Interface) -> Iterator[int]:
    return (rule.priority for rule in port.rules if rule.source and rule.priority is not None)
