"""Step routing, the host's part: what others put into our tables, the main table and the firewall."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks import routing_host
from trackbed.doctor.view import format_route, format_rule, get_ip_version
from trackbed.fabric.model.ranges import V4, V6, text
from trackbed.fabric.plan.routes import MAIN_TABLE, fence
from trackbed.kernel.netlink.addresses import FAMILY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import PortPlan
    from trackbed.kernel.netlink.routes import Route

READS = routing_host.READS
"""What these checks want to see of a host."""

RT_SCOPE_LINK = 253
"""RT_SCOPE_LINK of include/uapi/linux/rtnetlink.h."""
RTN_UNICAST = 1
STRICT = 1
"""rp_filter: 0 off, 1 strict (RFC 3704), 2 loose."""
NF_DROP = 0
"""NF_DROP of include/uapi/linux/netfilter.h."""


def check(view: NodeView) -> Iterator[Finding]:
    """Judge what lies around the rails' own rules and tables."""
    for port in view.iter_ports():
        yield from _shared_table(view, port)
        yield from _filter(view, port)
        yield from _dead(view, port)
        yield from _defaults(view, port)
    yield from _doubled(view)
    yield from _fence(view)
    yield from _firewall(view)
    yield from routing_host.check(view)


def _shared_table(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    table, link = view.node.common.rails[port.rail].table, view.find_link(port)
    own = {own.address for own in port.addressed}
    held = [r for r in view.state.routes if r.table == table and r.type == RTN_UNICAST and link and r.oif != link.index]
    led = [r for r in view.state.rules if r.table == table and not (r.src_prefix and r.src in own)]
    led = [r for r in led if not _of_rail(view, r.src)]
    evidence = "; ".join([*(format_route(view, r) for r in held), *map(format_rule, led)])
    yield judge("route-table-id-shared", view.node, port, ok=not (held or led), evidence=evidence)


def _of_rail(view: NodeView, address: int | None) -> bool:
    """A rule of another rail that leads here is that rail's fault (route-rule-wrong-table)."""
    return any(own.address == address for port in view.node.ports for own in port.addressed)


def _filter(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    keys = (f"net/ipv4/conf/{port.netdev}/rp_filter", "net/ipv4/conf/all/rp_filter")
    values = [view.sysctls.get(key) for key in keys]
    effective = max(int(v) for v in values if v is not None) if values[0] is not None else None
    ok = None if effective is None else effective != STRICT
    evidence = f"rp_filter {values[0]}, all {values[1]}: effective {effective}"
    yield judge("route-rp-filter-strict", view.node, port, ok=ok, evidence=evidence)


def _dead(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    link = view.find_link(port)
    dead = [r for r in view.state.routes if link and link.up and r.oif == link.index and r.linkdown]
    yield judge(
        "route-linkdown-kept", view.node, port, ok=not dead, evidence="; ".join(format_route(view, r) for r in dead[:2])
    )


def _defaults(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    link = view.find_link(port)
    found = [r for r in _main(view) if link and r.oif == link.index and r.prefix == 0]
    evidence = "; ".join(format_route(view, r) for r in found)
    yield judge("route-default-through-rail", view.node, port, ok=not found, evidence=evidence)


def _main(view: NodeView) -> list[Route]:
    return [r for r in view.state.routes if r.table == MAIN_TABLE]


def _doubled(view: NodeView) -> Iterator[Finding]:
    ports = {link.index for port in view.iter_ports() if (link := view.find_link(port))}
    connected = [
        r
        for r in _main(view)
        if r.oif in ports and r.scope == RT_SCOPE_LINK and r.type == RTN_UNICAST and r.family == FAMILY[V4]
    ]
    counted = Counter(
        (r.family, r.dst, r.prefix) for r in {(r.family, r.dst, r.prefix, r.oif): r for r in connected}.values()
    )
    doubled = [f"{text(get_ip_version(f), dst)}/{prefix}" for (f, dst, prefix), n in counted.items() if n > 1]
    yield judge("route-two-connected-for-one-subnet", view.node, None, ok=not doubled, evidence=", ".join(doubled))


def _fence(view: NodeView) -> Iterator[Finding]:
    rails = {port.netdev for port in view.node.ports}
    strays = [f"{text(V4, a)} goes by {dev}" for a, dev in view.management_paths.items() if dev in rails]
    missing = [
        str(wanted.unless_to) for v in (V4, V6) if (wanted := fence(view.node.common, v)) and not _fenced(view, v)
    ]
    evidence = "; ".join([*strays, *(f"no rule: not to {target} lookup main" for target in missing)])
    yield judge("route-host-traffic-on-rail", view.node, None, ok=not evidence, evidence=evidence)


def _fenced(view: NodeView, version: int) -> bool:
    wanted = fence(view.node.common, version)
    target = wanted.unless_to if wanted else None
    return any(
        r.invert and r.family == FAMILY[version] and target and (r.dst, r.dst_prefix) == (target.base, target.prefix)
        for r in view.state.rules
    )


def _firewall(view: NodeView) -> Iterator[Finding]:
    if view.chains is None:
        yield judge("route-firewall-drops-rails", view.node, None, ok=None, evidence="nf_tables cannot be read")
        return
    closed = [c for c in view.chains if c.hook in {"input", "forward"} and c.policy == "drop" and not c.rules]
    evidence = ", ".join(f"{c.family} {c.table} {c.name}: hook {c.hook}, policy drop, no rules" for c in closed)
    yield judge("route-firewall-drops-rails", view.node, None, ok=not closed, evidence=evidence)
