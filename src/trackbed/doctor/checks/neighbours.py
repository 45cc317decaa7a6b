"""Checks of a rail's neighbours: the gateway answers; if it does not, LLDP and the leaf's addresses show why."""

from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding, restrict_to_address
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.model.ranges import V4, format_address
from trackbed.fabric.plan.plan import AddressPlan, PortPlan
from trackbed.kernel.wire.lldp import Advertisement

PVID = 1
"""Default VLAN of a port (IEEE 802.1Q), which a routed port of a leaf has, unless it has none."""
_NO_VLAN = 0
"""In LLDP, a port without VLAN (IEEE 802.1Q, annex D)."""


def check(view: NodeView) -> Iterator[Finding]:
    """Check each rail's cabling and gateway; rails without a gateway are checked for cabling only."""
    for port in view.node.ports:
        results = view.probes.get(port.rail)
        address = next((address for address in port.addresses if address.gateway), None)
        if results is None:
            continue
        if results.lldp is not None:
            yield from check_cabling(view, port, results.lldp, answers=bool(results.gateway))
        if address is not None and results.gateway is not None:
            yield from check_gateway(view, restrict_to_address(port, address), address, answers=results.gateway)


def check_cabling(view: NodeView, port: PortPlan, advertisement: Advertisement, *, answers: bool) -> Iterator[Finding]:
    """Check that LLDP (IEEE 802.1AB) reports the planned leaf, and a VLAN in which the gateway can be.

    A rail that is bridged may have any VLAN, and one whose gateway answers (`answers`) has the right one.
    """
    leaf = advertisement.system_name or advertisement.chassis_id
    evidence = f"LLDP: {leaf} port {advertisement.port_id}, planned {port.leaf}"
    yield build_finding("fabric-port-on-wrong-leaf", view.node, port, ok=leaf == port.leaf, evidence=evidence)
    vlan = advertisement.port_vlan
    is_routed = view.node.common.is_routed
    if vlan not in {None, _NO_VLAN} and (is_routed or answers):
        evidence = f"LLDP: port VLAN {vlan}" + (", planned 1" if is_routed else "")
        ok = vlan == PVID or answers
        yield build_finding("fabric-vlan-or-segment-wrong", view.node, port, ok=ok, evidence=evidence)


def check_gateway(view: NodeView, port: PortPlan, address: AddressPlan, *, answers: bool) -> Iterator[Finding]:
    """Check that the leaf has the gateway's address and answers for it."""
    gateway = format_address(address.version, address.gateway)
    if view.switches is not None and port.leaf in view.switches:
        is_configured = address.gateway in view.switches[port.leaf]
        evidence = f"{port.leaf} has {'' if is_configured else 'not '}{gateway}"
        yield build_finding("switch-gateway-address-missing", view.node, port, ok=is_configured, evidence=evidence)
    request = "ARP" if address.version == V4 else "an echo request"
    evidence = f"{gateway} {'answers' if answers else 'does not answer'} {request} on {port.netdev}"
    yield build_finding("addr-neighbour-failed", view.node, port, ok=answers, evidence=evidence)
