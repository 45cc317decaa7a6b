"""Step addresses, last: the gateway answers. If it does not, the leaf's own words (LLDP, its addresses) say why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.fabric.model.ranges import text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView, ProbeResults
    from trackbed.fabric.plan.plan import Addressed, PortPlan

PVID = 1
"""Rails are untagged: the leaf port's own VLAN is the default one (IEEE 802.1Q)."""


def check(view: NodeView) -> Iterator[Finding]:
    """Judge each rail's gateway; rails without one have nothing to ask."""
    for port in view.node.ports:
        seen, own = view.probes.get(port.rail), next((a for a in port.addressed if a.gateway), None)
        if seen is None:
            continue
        yield from _cabling(view, port, seen)
        if own is not None and seen.gateway is not None:
            yield from _gateway(view, port, own, seen.gateway)


def _cabling(view: NodeView, port: PortPlan, seen: ProbeResults) -> Iterator[Finding]:
    """What LLDP says (IEEE 802.1AB); silence is a finding of the fabric step, not of this one."""
    if seen.lldp is None:
        return
    leaf = seen.lldp.system_name or seen.lldp.chassis_id
    evidence = f"LLDP: {leaf} port {seen.lldp.port_id}, planned {port.leaf}"
    yield judge("fabric-port-on-wrong-leaf", view.node, port, ok=leaf == port.leaf, evidence=evidence)
    if seen.lldp.port_vlan is not None:
        evidence = f"LLDP: port VLAN {seen.lldp.port_vlan}, planned {PVID}"
        yield judge("fabric-vlan-or-segment-wrong", view.node, port, ok=seen.lldp.port_vlan == PVID, evidence=evidence)


def _gateway(view: NodeView, port: PortPlan, own: Addressed, answers: bool) -> Iterator[Finding]:  # noqa: FBT001 - an outcome
    shown = text(own.version, own.gateway)
    if view.switches is not None and port.leaf in view.switches:
        configured = own.gateway in view.switches[port.leaf].addresses
        evidence = f"{port.leaf} has {'' if configured else 'not '}{shown}"
        yield judge("switch-gateway-address-missing", view.node, port, ok=configured, evidence=evidence)
    evidence = f"{shown} {'answers' if answers else 'does not answer'} ARP on {port.netdev}"
    yield judge("addr-neighbour-failed", view.node, port, ok=answers, evidence=evidence)
