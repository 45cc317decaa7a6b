"""The leaf switches that follow from a Plan: their hosts in order of slot, and what each port of theirs shall be.

Routed, schemes point-to-point and node-subnet: a port has the leaf's side of each subnet, the plan's gateway. Example:
host 172.16.0.4/31, leaf 172.16.0.5/31. BGP announces the subnets to the spines.

Bridged, schemes shared-subnet and none: a port is an access port of its rail's VLAN. The gateway, where one is
planned, is the VLAN interface's address on the rail's first leaf (lowest unit) and on no other, so nobody holds it
twice; further leaves reach it through their uplinks, which carry all VLANs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import V4, text
from trackbed.fabric.plan.plan import Addressed, NodePlan, Plan, PortPlan, QosPlan
from trackbed.switches.wiring import NAME, Wiring, wiring_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

MTU_BYTES = 9216
"""MTU of every port: the most that current switches carry, and what their RoCE guides take."""
ROUTED = ("point-to-point", "node-subnet")
"""Schemes whose subnets end at one port of one leaf."""


class LeafPort(msgspec.Struct, frozen=True, gc=False):
    """One port towards a host; `addresses` are the leaf's own, as address/prefix, none where it bridges."""

    name: str
    node: str
    rail: int
    addresses: tuple[str, ...]
    vlan: int = 0
    """VLAN of an access port, 0 where the port routes."""


class Uplink(msgspec.Struct, frozen=True, gc=False):
    """One port towards a spine; address/prefix and the spine's address where BGP is numbered, else empty."""

    name: str
    address: str = ""
    spine: str = ""


class Vlan(msgspec.Struct, frozen=True):
    """The VLAN of a bridged rail; `gateways` as address/prefix, none where the gateway is elsewhere."""

    number: int
    rail: int
    gateways: tuple[str, ...]


class Leaf(msgspec.Struct, frozen=True):
    """One leaf switch."""

    name: str
    units: tuple[int, ...]
    rails: tuple[int, ...]
    ports: tuple[LeafPort, ...]
    uplinks: tuple[Uplink, ...]
    vlans: tuple[Vlan, ...]
    """Empty where the leaf routes."""
    versions: tuple[int, ...]
    """IP versions that are planned."""
    asn: int
    router_id: str
    mtu_bytes: int
    host_mtu_bytes: int
    qos: QosPlan

    @property
    def routed(self) -> bool:
        """Whether the leaf routes between its ports; else it bridges."""
        return not self.vlans


_Cabled = tuple[NodePlan, PortPlan]


def cabled(plan: Plan) -> dict[str, list[_Cabled]]:
    """Each leaf's hosts with their port on it, in order of slot; leaves in order of unit and rail."""
    found: dict[str, list[_Cabled]] = {}
    for node in plan.nodes:
        for port in node.ports:
            found.setdefault(port.leaf, []).append((node, port))
    return dict(sorted(found.items(), key=lambda one: _number(plan, one[1])))


def leaves(plan: Plan, wiring: Wiring) -> Iterator[Leaf]:
    """All leaves; only for a plan and a wiring that `refusals` has nothing against."""
    seen: set[int] = set()
    for name, hosts in cabled(plan).items():
        yield _leaf(plan, wiring, name, hosts, seen)
        seen.update(port.rail for _, port in hosts)


def refusals(plan: Plan, wiring: Wiring) -> list[Problem]:
    """Why no leaf can be configured for this plan with this wiring."""
    common = plan.common
    if common.link_type != "ethernet":
        message = "InfiniBand switches are configured by their subnet manager, not by files; see opensm or UFM"
        return [Problem("infiniband", message, ("spec", "linkType"))]
    hosts = cabled(plan)
    numbers = 1 + max((_number(plan, some) for some in hosts.values()), default=0)
    found = list(wiring_problems(wiring, len(common.rails), numbers))
    if common.mtu_bytes > MTU_BYTES:
        message = f"mtu {common.mtu_bytes} is above the {MTU_BYTES} that a switch port carries"
        found.append(Problem("mtu-too-large", message, ("spec", "mtu")))
    if wiring.uplinks4 and any(rail.v6 for rail in common.rails):
        message = "numbered uplinks carry IPv4 only, and IPv6 is planned; leave --uplink-range out: unnumbered has both"
        found.append(Problem("uplink-range-ipv6", message))
    if wiring.uplinks4 and common.scheme not in ROUTED:
        message = f"scheme {common.scheme} is bridged, so uplinks have no addresses; leave --uplink-range out"
        found.append(Problem("uplink-range-bridged", message))
    unfit = [problem for name, some in hosts.items() if (problem := _unfit(name, some, wiring))]
    return found + list({problem.code: problem for problem in reversed(unfit)}.values())


def notes(plan: Plan, wiring: Wiring) -> Iterator[str]:
    """What somebody who renders this should know."""
    links = {(port.rail, port.leaf) for node in plan.nodes for port in node.ports}
    spanning = len(links) > len({rail for rail, _ in links})
    if (spanning or (plan.common.cross_rail == "routed" and len(links) > 1)) and not wiring.uplinks:
        yield "no uplinks are named, so each leaf reaches its own hosts only; name them with --uplinks"
    elif spanning and plan.common.scheme not in ROUTED:
        yield "a rail spans several leaves: its VLAN must reach all of them through the uplinks"
    if plan.common.scheme not in ROUTED and plan.common.cross_rail == "routed" and wiring.gateways:
        yield "each rail's gateway is put on its first leaf; --no-gateways where routers of their own have it"


def _number(plan: Plan, hosts: list[_Cabled]) -> int:
    """Number of a leaf: it changes only when rails are added."""
    return min(node.unit for node, _ in hosts) * len(plan.common.rails) + min(port.rail for _, port in hosts)


def _unfit(name: str, hosts: list[_Cabled], wiring: Wiring) -> Problem | None:
    if not NAME.fullmatch(name):
        message = f"leaf name {name!r} is no host name; letters, digits, '-', '_' and '.'"
        return Problem("bad-leaf-name", message, ("spec", "names", "leaf"))
    last = max(_positions(hosts))
    if last < len(wiring.ports):
        both = set(wiring.uplinks) & set(wiring.ports[: last + 1])
        return Problem("doubled-port", f"{name}: {min(both)} is an uplink and a host's port") if both else None
    node, port = hosts[_positions(hosts).index(last)]
    message = (
        f"{name} has ports for {len(wiring.ports)} hosts, {node.name} (rail {port.rail}) would be on number "
        f"{last + 1}; name more with --ports, or set nodesPerUnit lower"
    )
    return Problem("too-few-ports", message, ("spec", "nodesPerUnit"))


def _positions(hosts: list[_Cabled]) -> list[int]:
    """Position of each host's port on the leaf, from 0."""
    units, rails = {node.unit for node, _ in hosts}, sorted({port.rail for _, port in hosts})
    per_unit, place = hosts[0][0].common.nodes_per_unit, {rail: index for index, rail in enumerate(rails)}
    slots = (node.slot if len(units) > 1 else node.slot % per_unit for node, _ in hosts)
    return [slot * len(rails) + place[port.rail] for slot, (_, port) in zip(slots, hosts, strict=True)]


def _leaf(plan: Plan, wiring: Wiring, name: str, hosts: list[_Cabled], seen: set[int]) -> Leaf:
    number, rails = _number(plan, hosts), tuple(sorted({port.rail for _, port in hosts}))
    routed = plan.common.scheme in ROUTED
    ports = tuple(
        LeafPort(wiring.ports[at], node.name, port.rail, *_side(port, wiring, routed=routed))
        for at, (node, port) in zip(_positions(hosts), hosts, strict=True)
    )
    first = {port.rail: port for _, port in reversed(hosts)}
    return Leaf(
        name=name,
        units=tuple(sorted({node.unit for node, _ in hosts})),
        rails=rails,
        ports=ports,
        uplinks=tuple(_uplinks(wiring, number)),
        vlans=() if routed else tuple(_vlan(first[rail], wiring, here=rail not in seen) for rail in rails),
        versions=tuple(own.version for own in hosts[0][1].addressed),
        asn=wiring.first_asn + number,
        router_id=_router_id(hosts[0][1], number),
        mtu_bytes=MTU_BYTES,
        host_mtu_bytes=plan.common.mtu_bytes,
        qos=plan.common.qos,
    )


def _side(port: PortPlan, wiring: Wiring, *, routed: bool) -> tuple[tuple[str, ...], int]:
    """Addresses and VLAN of the leaf's port."""
    return (tuple(_gateway(own) for own in port.addressed), 0) if routed else ((), wiring.first_vlan + port.rail)


def _gateway(own: Addressed) -> str:
    return f"{text(own.version, own.gateway)}/{own.prefix}"


def _vlan(port: PortPlan, wiring: Wiring, *, here: bool) -> Vlan:
    has = here and wiring.gateways
    return Vlan(
        wiring.first_vlan + port.rail, port.rail, tuple(_gateway(own) for own in port.addressed if own.gateway and has)
    )


def _uplinks(wiring: Wiring, number: int) -> Iterator[Uplink]:
    for index, name in enumerate(wiring.uplinks):
        if wiring.uplinks4 is None:
            yield Uplink(name)
            continue
        own = wiring.uplinks4.base + 2 * (number * len(wiring.uplinks) + index)
        yield Uplink(name, f"{text(V4, own)}/31", text(V4, own + 1))


def _router_id(port: PortPlan, number: int) -> str:
    """The leaf's lowest IPv4 address; where there is none, 1.0.0.1 and up: four bytes nobody else has (RFC 6286)."""
    return text(V4, port.v4.gateway) if port.v4 and port.v4.gateway else text(V4, (1 << 24) + 1 + number)
