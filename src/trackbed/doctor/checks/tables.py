"""Step routing, the rail's own part: source rule and table, as plan.routes says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.view import format_route, format_rule
from trackbed.fabric.model.ranges import BITS, Range
from trackbed.fabric.plan.routes import MAIN_TABLE
from trackbed.kernel.netlink.addresses import FAMILY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import Addressed, PortPlan
    from trackbed.kernel.netlink.routes import Route
    from trackbed.kernel.netlink.rules import PolicyRule

RTN_UNICAST = 1
"""RTN_UNICAST of include/uapi/linux/rtnetlink.h."""


def check(view: NodeView) -> Iterator[Finding]:
    """Judge rule and table of every addressed port that is here and up."""
    for port in view.iter_ports():
        link = view.find_link(port)
        if link is None:
            continue
        for own in port.addressed:
            yield from _rules(view, port, own)
            yield from _table(view, port, own)


def _rules(view: NodeView, port: PortPlan, own: Addressed) -> Iterator[Finding]:
    node, family = view.node, FAMILY[own.version]
    table, priority = node.common.rails[port.rail].table, node.common.rule_priority + port.rail
    mine = [r for r in view.state.rules if r.family == family and _selects_only(r, own)]
    shown = "; ".join(map(format_rule, mine)) or f"no rule from {own}"
    yield judge("route-rule-missing", node, port, ok=bool(mine), evidence=shown)
    if not mine:
        return
    right = any(rule.table == table for rule in mine)
    yield judge("route-rule-wrong-table", node, port, ok=right, evidence=f"{shown}, planned table {table}")
    earlier = [r for r in view.state.rules if r.family == family and 0 < r.priority < priority and _takes(view, r, own)]
    yield judge("route-rule-shadowed", node, port, ok=not earlier, evidence="; ".join(map(format_rule, earlier)))


def _selects_only(rule: PolicyRule, own: Addressed) -> bool:
    return rule.src == own.address and rule.src_prefix == BITS[own.version] and not rule.invert


def _takes(view: NodeView, rule: PolicyRule, own: Addressed) -> bool:
    """Whether an earlier rule takes this address's rail traffic. Our own fence and rules of other rails do not."""
    if rule.invert or rule.fwmark or rule.iif or rule.oif or _selects_only(rule, own):
        return False
    covers = not rule.src_prefix or own.address in _range(own.version, rule.src or 0, rule.src_prefix)
    aims = _range(own.version, rule.dst or 0, rule.dst_prefix) if rule.dst_prefix else None
    return covers and (aims is None or any(aims.overlaps(cut) for cut in view.list_rail_ranges()))


def _range(version: int, base: int, prefix: int) -> Range:
    return Range(version, base, prefix)


def _table(view: NodeView, port: PortPlan, own: Addressed) -> Iterator[Finding]:
    node, table = view.node, view.node.common.rails[port.rail].table
    held = [r for r in view.state.routes if r.family == FAMILY[own.version] and r.table == table]
    ours = [r for r in held if r.oif == _index(view, port) or r.type != RTN_UNICAST]
    flapped = _flapped(view, port)
    shown = "; ".join(format_route(view, r) for r in ours) or f"table {table} is empty"
    fault = "route-table-flushed-by-link-down" if flapped else "route-table-empty"
    over_port = [r for r in ours if r.type == RTN_UNICAST]
    yield judge(fault, node, port, ok=bool(over_port), evidence=shown + (f"; {flapped}" if flapped else ""))
    if not over_port:
        return
    if own.gateway:
        yield from _beyond(view, port, own, ours, shown)
    wrong = [r for r in over_port + _main(view, port, own) if r.prefsrc != own.address]
    evidence = "; ".join(format_route(view, r) for r in wrong)
    yield judge("route-source-hint-wrong", node, port, ok=not wrong, evidence=evidence)


def _beyond(view: NodeView, port: PortPlan, own: Addressed, ours: list[Route], shown: str) -> Iterator[Finding]:
    strange = [r for r in ours if r.gateway and r.gateway not in own.subnet]
    evidence = "; ".join(format_route(view, r) for r in strange)
    yield judge("route-gateway-not-on-link", view.node, port, ok=not strange, evidence=evidence)
    cut = view.node.common.rails[port.rail].v4 if own.version == 4 else view.node.common.rails[port.rail].v6  # noqa: PLR2004 - the IP version
    if cut is None or cut == own.subnet:
        return
    leads = [
        r for r in ours if r.type == RTN_UNICAST and r.gateway and (not r.prefix or cut.overlaps(_to(own.version, r)))
    ]
    yield judge("route-supernet-missing", view.node, port, ok=bool(leads), evidence=shown)


def _to(version: int, route: Route) -> Range:
    return Range(version, route.dst, route.prefix)


def _main(view: NodeView, port: PortPlan, own: Addressed) -> list[Route]:
    """Routes by the gateway that table main has over this port."""
    mine, family = _index(view, port), FAMILY[own.version]
    return [
        r for r in view.state.routes if r.family == family and r.table == MAIN_TABLE and r.oif == mine and r.gateway
    ]


def _index(view: NodeView, port: PortPlan) -> int:
    link = view.find_link(port)
    return link.index if link else 0


def _flapped(view: NodeView, port: PortPlan) -> str:
    """What the carrier counters say since the last apply; empty where nothing happened or nobody counted."""
    link, before = view.find_link(port), (view.baseline or {}).get(port.netdev)
    if link is None or before is None or port.netdev in view.moved_ports:
        return ""
    changes = link.carrier_up_count + link.carrier_down_count - before[0]
    return f"carrier changed {changes} times since the last apply" if changes > 0 else ""
