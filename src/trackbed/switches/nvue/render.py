"""Renderer of a leaf as NVUE commands (Cumulus Linux), one `nv set` per line.

Commands are rendered rather than NVUE's YAML: the documentation and `nv config show -o commands` use them, automation
can run them, and `nv config replace` of YAML would drop settings that are not in the file. Nothing is applied:
`nv config diff` shows the changes, and `nv config apply` makes them.

QoS starts from `nv set qos roce`, which sizes buffers for the ASIC: switch priority 3 to class 3 with ECN and, in mode
lossless, PFC; switch priority 6 to class 6 with strict priority. Only settings that differ from it follow. Source:
https://docs.nvidia.com/networking-ethernet-software/cumulus-linux/ (RDMA over Converged Ethernet, Quality of Service).
Commands are those of Cumulus Linux 5.15 and later, which renamed `ip address` to `ipv4 address` and `ipv6 address`,
`enable on` to `state enabled` ("New and Changed NVUE Commands" of 5.15); earlier releases do not know them.
"""

from collections.abc import Iterator

from trackbed.fabric.plan.plan import QosPlan
from trackbed.switches.leaf import CNP_CLASS, Leaf, LeafVlan, Uplink, choose_cnp_class

ROCE_PRIORITY = 3
"""Switch priority and traffic class of RDMA in the RoCE profile; for CNPs both are CNP_CLASS."""
BGP = "vrf default router bgp"
FAMILY = {4: "ipv4-unicast", 6: "ipv6-unicast"}
"""IP version -> address family."""


def list_ports(count: int) -> tuple[str, ...]:
    """Return the names of the first `count` front-panel ports: swp1, swp2 and so on."""
    return tuple(f"swp{number}" for number in range(1, count + 1))


def render(leaf: Leaf) -> str:
    """Render the commands that configure a switch as this leaf."""
    commands = (f"nv set {command}" for command in _iter_commands(leaf))
    return "".join(f"{line}\n" for line in (*_iter_comments(leaf), *commands))


def _iter_comments(leaf: Leaf) -> Iterator[str]:
    mode = f"routed, AS {leaf.asn}" if leaf.is_routed else "bridged"
    yield f"# {leaf.name}: {_format_numbers('unit', leaf.units)}, {_format_numbers('rail', leaf.rails)}, {mode}"
    yield "# commands of Cumulus Linux 5.15 or newer"
    for port in leaf.ports:
        yield f"# {port.name}: {port.node} rail {port.rail}"
    if leaf.uplinks:
        yield f"# uplinks: {', '.join(uplink.name for uplink in leaf.uplinks)}"


def _format_numbers(noun: str, numbers: tuple[int, ...]) -> str:
    return f"{noun}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _iter_commands(leaf: Leaf) -> Iterator[str]:
    yield f"system hostname {leaf.name}"
    for port in leaf.ports:
        yield f"interface {port.name} link mtu {leaf.mtu_bytes}"
        yield from (_format_address(port.name, address) for address in port.addresses)
        if port.vlan:
            yield f"interface {port.name} bridge domain br_default access {port.vlan}"
    for uplink in leaf.uplinks:
        yield from _iter_uplink_commands(leaf, uplink)
    for vlan in leaf.vlans:
        yield from _iter_vlan_commands(leaf, vlan)
    if leaf.is_routed and leaf.uplinks:
        yield from _iter_bgp_commands(leaf)
    yield from _iter_qos_commands(leaf.qos)


def _format_address(interface: str, address: str) -> str:
    return f"interface {interface} {'ipv6' if ':' in address else 'ipv4'} address {address}"


def _iter_uplink_commands(leaf: Leaf, uplink: Uplink) -> Iterator[str]:
    yield f"interface {uplink.name} link mtu {leaf.mtu_bytes}"
    if uplink.address:
        yield _format_address(uplink.name, uplink.address)
    if not leaf.is_routed:
        yield f"interface {uplink.name} bridge domain br_default"


def _iter_vlan_commands(leaf: Leaf, vlan: LeafVlan) -> Iterator[str]:
    yield f"bridge domain br_default vlan {vlan.number}"
    if vlan.gateways:
        yield f"interface vlan{vlan.number} type svi"
        yield f"interface vlan{vlan.number} link mtu {leaf.mtu_bytes}"
    yield from (_format_address(f"vlan{vlan.number}", gateway) for gateway in vlan.gateways)


def _iter_bgp_commands(leaf: Leaf) -> Iterator[str]:
    yield f"router bgp autonomous-system {leaf.asn}"
    yield f"router bgp router-id {leaf.router_id}"
    yield "router bgp state enabled"
    yield f"{BGP} state enabled"
    for version in leaf.ip_versions:
        yield f"{BGP} address-family {FAMILY[version]} state enabled"
        yield f"{BGP} address-family {FAMILY[version]} redistribute connected state enabled"
    for uplink in leaf.uplinks:
        peer = uplink.spine or uplink.name
        yield f"{BGP} neighbor {peer} type {'numbered' if uplink.spine else 'unnumbered'}"
        yield f"{BGP} neighbor {peer} remote-as external"
        for version in leaf.ip_versions:
            yield f"{BGP} neighbor {peer} address-family {FAMILY[version]} state enabled"


def _iter_qos_commands(qos: QosPlan) -> Iterator[str]:
    yield f"qos roce mode {'lossless' if qos.pfc else 'lossy'}"
    if qos.priority != ROCE_PRIORITY:
        yield from _iter_class_changes(qos)
    planned = {qos.dscp: qos.priority, qos.cnp_dscp: choose_cnp_class(qos)}
    exceptions = {dscp: priority for dscp, priority in planned.items() if dscp // 8 != priority}
    if exceptions:
        yield "qos mapping default-global trust both"
    for dscp, priority in exceptions.items():
        yield f"qos mapping default-global dscp {dscp} switch-priority {priority}"
    if not qos.ecn:
        yield f"qos congestion-control default-global traffic-class {ROCE_PRIORITY} ecn disabled"


def _iter_class_changes(qos: QosPlan) -> Iterator[str]:
    """Yield the commands that assign the profile's class 3 to another switch priority, as documented."""
    if qos.pfc:
        yield f"qos pfc default-global switch-priority {qos.priority}"
    yield f"qos egress-queue-mapping default-global switch-priority {qos.priority} traffic-class {ROCE_PRIORITY}"
    yield f"qos egress-queue-mapping default-global switch-priority {ROCE_PRIORITY} traffic-class 0"
    if (cnp := choose_cnp_class(qos)) != CNP_CLASS:
        yield f"qos egress-queue-mapping default-global switch-priority {cnp} traffic-class {CNP_CLASS}"
