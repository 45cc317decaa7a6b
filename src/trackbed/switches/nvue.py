"""A leaf as NVUE commands (Cumulus Linux), one `nv set` a line.

Commands and not NVUE's YAML: they are what its documentation, its reviews and `nv config show -o commands` speak, they
need no knowledge of what `nv config replace` would drop, and automation runs them just as well. Nothing is applied:
`nv config diff` shows what would change, `nv config apply` does it.

QoS starts from `nv set qos roce` (switch priority 3 to class 3 with ECN and, in mode lossless, PFC; switch priority 6
to class 6, strictly first), which sizes buffers for the ASIC. Only what the plan has otherwise is written after it:
https://docs.nvidia.com/networking-ethernet-software/cumulus-linux/ (RDMA over Converged Ethernet, Quality of Service).
On/off values are written `state enabled`; releases that know `enable on` only say so when they read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.switches.leaf import Leaf, Uplink, Vlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.fabric.plan.plan import QosPlan

ROCE_PRIORITY, CNP_PRIORITY = 3, 6
"""Switch priorities of the RoCE profile, and its traffic classes of the same numbers."""
BGP = "vrf default router bgp"
FAMILY = {4: "ipv4-unicast", 6: "ipv6-unicast"}
"""IP version -> address family."""


def ports(count: int) -> tuple[str, ...]:
    """Front-panel ports in order: swp1, swp2 and so on."""
    return tuple(f"swp{number}" for number in range(1, count + 1))


def render(leaf: Leaf) -> str:
    """The commands that make a switch this leaf."""
    return "".join(f"{line}\n" for line in (*_head(leaf), *(f"nv set {command}" for command in _commands(leaf))))


def _head(leaf: Leaf) -> Iterator[str]:
    how = f"routed, AS {leaf.asn}" if leaf.routed else "bridged"
    yield f"# {leaf.name}: {_numbers('unit', leaf.units)}, {_numbers('rail', leaf.rails)}, {how}"
    for port in leaf.ports:
        yield f"# {port.name}: {port.node} rail {port.rail}"
    if leaf.uplinks:
        yield f"# uplinks: {', '.join(uplink.name for uplink in leaf.uplinks)}"


def _numbers(noun: str, numbers: tuple[int, ...]) -> str:
    return f"{noun}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _commands(leaf: Leaf) -> Iterator[str]:
    yield f"system hostname {leaf.name}"
    for port in leaf.ports:
        yield f"interface {port.name} link mtu {leaf.mtu_bytes}"
        yield from (f"interface {port.name} ip address {address}" for address in port.addresses)
        if port.vlan:
            yield f"interface {port.name} bridge domain br_default access {port.vlan}"
    for uplink in leaf.uplinks:
        yield from _uplink(leaf, uplink)
    for vlan in leaf.vlans:
        yield from _vlan(leaf, vlan)
    if leaf.routed and leaf.uplinks:
        yield from _bgp(leaf)
    yield from _qos(leaf.qos)


def _uplink(leaf: Leaf, uplink: Uplink) -> Iterator[str]:
    yield f"interface {uplink.name} link mtu {leaf.mtu_bytes}"
    if uplink.address:
        yield f"interface {uplink.name} ip address {uplink.address}"
    if not leaf.routed:
        yield f"interface {uplink.name} bridge domain br_default"


def _vlan(leaf: Leaf, vlan: Vlan) -> Iterator[str]:
    yield f"bridge domain br_default vlan {vlan.number}"
    if vlan.gateways:
        yield f"interface vlan{vlan.number} type svi"
        yield f"interface vlan{vlan.number} link mtu {leaf.mtu_bytes}"
    yield from (f"interface vlan{vlan.number} ip address {gateway}" for gateway in vlan.gateways)


def _bgp(leaf: Leaf) -> Iterator[str]:
    yield f"router bgp autonomous-system {leaf.asn}"
    yield f"router bgp router-id {leaf.router_id}"
    yield "router bgp state enabled"
    yield f"{BGP} state enabled"
    for version in leaf.versions:
        yield f"{BGP} address-family {FAMILY[version]} state enabled"
        yield f"{BGP} address-family {FAMILY[version]} redistribute connected state enabled"
    for uplink in leaf.uplinks:
        peer = uplink.spine or uplink.name
        yield f"{BGP} neighbor {peer} type {'numbered' if uplink.spine else 'unnumbered'}"
        yield f"{BGP} neighbor {peer} remote-as external"
        for version in leaf.versions:
            yield f"{BGP} neighbor {peer} address-family {FAMILY[version]} state enabled"


def _qos(qos: QosPlan) -> Iterator[str]:
    yield f"qos roce mode {'lossless' if qos.pfc else 'lossy'}"
    if qos.priority != ROCE_PRIORITY:
        yield from _moved(qos)
    wanted = {qos.dscp: qos.priority, qos.cnp_dscp: cnp_priority(qos)}
    moved = {dscp: priority for dscp, priority in wanted.items() if dscp // 8 != priority}
    if moved:
        yield "qos mapping default-global trust both"
    for dscp, priority in moved.items():
        yield f"qos mapping default-global dscp {dscp} switch-priority {priority}"
    if not qos.ecn:
        yield f"qos congestion-control default-global traffic-class {ROCE_PRIORITY} ecn disabled"


def _moved(qos: QosPlan) -> Iterator[str]:
    """The profile's class 3 for another switch priority, as its documentation moves it."""
    if qos.pfc:
        yield f"qos pfc default-global switch-priority {qos.priority}"
    yield f"qos egress-queue-mapping default-global switch-priority {qos.priority} traffic-class {ROCE_PRIORITY}"
    yield f"qos egress-queue-mapping default-global switch-priority {ROCE_PRIORITY} traffic-class 0"
    if (cnp := cnp_priority(qos)) != CNP_PRIORITY:
        yield f"qos egress-queue-mapping default-global switch-priority {cnp} traffic-class {CNP_PRIORITY}"


def cnp_priority(qos: QosPlan) -> int:
    """Switch priority of congestion notifications: 6, or 7 where RDMA has 6."""
    return CNP_PRIORITY if qos.priority != CNP_PRIORITY else CNP_PRIORITY + 1
