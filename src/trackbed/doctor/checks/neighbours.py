"""Step addresses, last part: the gateway answers; if not, LLDP and the leaf's addresses show why."""

from collections.abc import Iterator

from trackbed.doctor.catalogue import judge
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.plan import AddressPlan, PortPlan
from trackbed.kernel.wire.lldp import Advertisement

PVID = 1
"""Rails are untagged, so the leaf port's own VLAN is the default one (IEEE 802.1Q)."""


def check(view: NodeView) -> Iterator[Finding]:
    """Check each rail's cabling and gateway; rails without a gateway are checked for cabling only."""
    for port in view.node.ports:
        results = view.probes.get(port.rail)
        address = next((address for address in port.addresses if address.gateway), None)
        if results is None:
            continue
        if results.lldp is not None:
            yield from check_cabling(view, port, results.lldp)
        if address is not None and results.gateway is not None:
            yield from check_gateway(view, port, address, answers=results.gateway)


def check_cabling(view: NodeView, port: PortPlan, advertisement: Advertisement) -> Iterator[Finding]:
    """Check the leaf and its port VLAN, as LLDP (IEEE 802.1AB) reports them."""
    leaf = advertisement.system_name or advertisement.chassis_id
    evidence = f"LLDP: {leaf} port {advertisement.port_id}, planned {port.leaf}"
    yield judge("fabric-port-on-wrong-leaf", view.node, port, ok=leaf == port.leaf, evidence=evidence)
    vlan = advertisement.port_vlan
    if vlan is not None:
        evidence = f"LLDP: port VLAN {vlan}, planned {PVID}"
        yield judge("fabric-vlan-or-segment-wrong", view.node, port, ok=vlan == PVID, evidence=evidence)


def check_gateway(view: NodeView, port: PortPlan, address: AddressPlan, *, answers: bool) -> Iterator[Finding]:
    """Check that the leaf has the gateway's address and answers for it."""
    gateway = format_address(address.version, address.gateway)
    if view.switches is not None and port.leaf in view.switches:
        is_configured = address.gateway in view.switches[port.leaf].addresses
        evidence = f"{port.leaf} has {'' if is_configured else 'not '}{gateway}"
        yield judge("switch-gateway-address-missing", view.node, port, ok=is_configured, evidence=evidence)
    evidence = f"{gateway} {'answers' if answers else 'does not answer'} ARP on {port.netdev}"
    yield judge("addr-neighbour-failed", view.node, port, ok=answers, evidence=evidence)
