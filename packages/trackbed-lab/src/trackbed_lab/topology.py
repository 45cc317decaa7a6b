"""The lab's network as a value: namespaces, cables, addresses, routes. Pure; `netns` builds it.

    point-to-point, node-subnet     a leaf routes: each port has its node's gateway, the uplink leads to the spine
    shared-subnet                   a leaf is a bridge, its uplink ends in a bridge of the spine for the rail; the
                                    gateway, where one is planned, is the spine's address on that bridge

    node --- port r --- leaf (unit, rail) --- spine        and every node's eth0 --- mgmt

Where rails are isolated, the spine looks up each rail in a table of its own, which knows no other rail.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trackbed.fabric.model.ranges import BITS, V4, Range

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.fabric.plan.plan import AddressPlan, NodePlan, Plan, PortPlan

SPINE, MANAGEMENT = "spine", "mgmt"
LINKS = {4: Range(4, 100 << 24 | 64 << 16, 16), 6: Range(6, 0xFD64 << 112, 64)}
"""Addresses between leaves and spine: shared address space (RFC 6598), which no fabric plans."""
MANAGEMENT_RANGE = Range(4, 198 << 24 | 18 << 16, 15)
"""198.18.0.0/15, set aside for benchmarks (RFC 2544)."""
SWITCH_MTU_BYTES = 9216
_FIRST_NODE, _FIRST_POD = 10, 1 << 16 | 10


@dataclass(frozen=True, slots=True)
class CableEnd:
    """One end of a cable: namespace, interface, and what is set on it. `bridge` names the bridge it is put into."""

    netns: str
    name: str
    mtu_bytes: int
    mac: str | None = None
    up: bool = True
    bridge: str | None = None
    addresses: tuple[tuple[int, int, int], ...] = ()
    """(IP version, address, prefix length)."""


@dataclass(frozen=True, slots=True)
class Cable:
    """Two ends."""

    near: CableEnd
    far: CableEnd


@dataclass(frozen=True, slots=True)
class SwitchRoute:
    """A route of a switch: `gateway` 0 for one of its own links, table 254 for main; `interface` where it leads."""

    destination: Range
    gateway: int
    interface: str
    table: int = 254
    unreachable: bool = False


@dataclass(frozen=True, slots=True)
class Switch:
    """A leaf, the spine or the management switch: its bridges with their addresses, its routes, its lookups."""

    name: str
    bridges: tuple[CableEnd, ...] = ()
    routes: tuple[SwitchRoute, ...] = ()
    lookups: tuple[tuple[str, int], ...] = ()
    """(interface, table): what comes in there is looked up in that table and nowhere else."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Everything that is built."""

    nodes: tuple[str, ...]
    switches: tuple[Switch, ...]
    cables: tuple[Cable, ...]
    leaf_ends: dict[tuple[str, int], tuple[str, str]] = field(default_factory=dict)
    """(node, rail) -> (leaf, interface)."""

    @property
    def namespaces(self) -> tuple[str, ...]:
        """All namespaces."""
        return (*self.nodes, *(switch.name for switch in self.switches))


def build_topology(plan: Plan) -> Topology:
    """The lab of a plan."""
    leaves = sorted({(node.unit, port.rail, port.leaf) for node in plan.nodes for port in node.ports})
    ends = dict(_leaf_ends(plan))
    ports = [_port_cable(plan, node, port, ends) for node in plan.nodes for port in node.ports]
    uplinks = [_uplink(plan, number, rail, leaf) for number, (_, rail, leaf) in enumerate(leaves)]
    management = [_management_cable(number, node.name) for number, node in enumerate(plan.nodes)]
    switches = [
        *(_leaf(plan, number, leaf) for number, (_, _, leaf) in enumerate(leaves)),
        _spine(plan, leaves),
        Switch(MANAGEMENT, (CableEnd(MANAGEMENT, "br0", 1500, addresses=((4, MANAGEMENT_RANGE.base + 1, 15),)),)),
    ]
    names = tuple(node.name for node in plan.nodes)
    return Topology(names, tuple(switches), (*ports, *uplinks, *management), ends)


def get_management_address(number: int) -> int:
    """The IPv4 address of the node's eth0, by its place in the plan."""
    return MANAGEMENT_RANGE.base + _FIRST_NODE + number


def get_pod_address(number: int) -> int:
    """The IPv4 address of a pod's eth0, by a running number."""
    return MANAGEMENT_RANGE.base + _FIRST_POD + number


def count_expected_hops(plan: Plan, one: tuple[NodePlan, int], other: tuple[NodePlan, int]) -> int:
    """Routers between a port of one node and a port of another, as the cables say."""
    (node, rail), (peer, peer_rail) = one, other
    if node.name == peer.name:
        return 0
    if plan.common.scheme == "shared-subnet":
        return 0 if rail == peer_rail else 1
    return 1 if rail == peer_rail and node.unit == peer.unit else 3


def _leaf_ends(plan: Plan) -> Iterator[tuple[tuple[str, int], tuple[str, str]]]:
    counted: dict[str, int] = {}
    for node in plan.nodes:
        for port in node.ports:
            counted[port.leaf] = counted.get(port.leaf, 0) + 1
            yield (node.name, port.rail), (port.leaf, f"swp{counted[port.leaf]}")


def _flat(plan: Plan) -> bool:
    return plan.common.scheme in {"shared-subnet", "none"}


def choose_kernel_name(port: PortPlan) -> str:
    """What the port is called before the step names: its known name, or one to be renamed where a MAC identifies it."""
    return port.kernel_name or (f"nic{port.rail}" if port.mac else port.netdev)


def _mac(node: NodePlan, port: PortPlan) -> str:
    return port.mac or f"02:7b:{node.slot >> 8 & 255:02x}:{node.slot & 255:02x}:00:{port.rail:02x}"


def _port_cable(plan: Plan, node: NodePlan, port: PortPlan, ends: dict[tuple[str, int], tuple[str, str]]) -> Cable:
    leaf, interface = ends[node.name, port.rail]
    gateways = tuple((own.version, own.gateway, own.prefix) for own in port.addresses if own.gateway)
    near = CableEnd(node.name, choose_kernel_name(port), plan.common.mtu_bytes, _mac(node, port), up=False)
    if _flat(plan):
        return Cable(near, CableEnd(leaf, interface, SWITCH_MTU_BYTES, bridge="br0"))
    return Cable(near, CableEnd(leaf, interface, SWITCH_MTU_BYTES, addresses=gateways))


def _versions(plan: Plan) -> list[int]:
    return [v for v in (4, 6) if plan.common.get_supernet(v)]


def _link_addresses(plan: Plan, number: int, end: int) -> tuple[tuple[int, int, int], ...]:
    return tuple((v, LINKS[v].base + 2 * number + end, BITS[v] - 1) for v in _versions(plan))


def _uplink(plan: Plan, number: int, rail: int, leaf: str) -> Cable:
    down = f"down{number}"
    if _flat(plan):
        near = CableEnd(leaf, "up", SWITCH_MTU_BYTES, bridge="br0")
        return Cable(near, CableEnd(SPINE, down, SWITCH_MTU_BYTES, bridge=f"rail{rail}"))
    near = CableEnd(leaf, "up", SWITCH_MTU_BYTES, addresses=_link_addresses(plan, number, 1))
    return Cable(near, CableEnd(SPINE, down, SWITCH_MTU_BYTES, addresses=_link_addresses(plan, number, 0)))


def _management_cable(number: int, node: str) -> Cable:
    own = ((4, get_management_address(number), 15),)
    return Cable(CableEnd(node, "eth0", 1500, addresses=own), CableEnd(MANAGEMENT, f"node{number}", 1500, bridge="br0"))


def _leaf(plan: Plan, number: int, leaf: str) -> Switch:
    if _flat(plan):
        return Switch(leaf, (CableEnd(leaf, "br0", SWITCH_MTU_BYTES),))
    ways = tuple(SwitchRoute(Range(v, 0, 0), LINKS[v].base + 2 * number, "up") for v in _versions(plan))
    return Switch(leaf, routes=ways)


def _spine(plan: Plan, leaves: list[tuple[int, int, str]]) -> Switch:
    isolated = plan.common.cross_rail == "isolated"
    if _flat(plan):
        bridges = tuple(_rail_bridge(plan, rail) for rail in range(len(plan.common.rails)))
        lookups = tuple((b.name, 100 + rail) for rail, b in enumerate(bridges) if b.addresses) if isolated else ()
        ways = tuple(_nowhere(v, table) for _, table in lookups for v in _versions(plan))
        return Switch(SPINE, bridges, ways, lookups)
    down = list(_down_ways(plan, leaves, isolated=isolated))
    lookups = tuple((f"down{n}", 100 + rail) for n, (_, rail, _) in enumerate(leaves)) if isolated else ()
    down += [_nowhere(v, table) for table in sorted({t for _, t in lookups}) for v in _versions(plan)]
    return Switch(SPINE, routes=tuple(down), lookups=lookups)


def _nowhere(version: int, table: int) -> SwitchRoute:
    return SwitchRoute(Range(version, 0, 0), 0, "", table, unreachable=True)


def _rail_bridge(plan: Plan, rail: int) -> CableEnd:
    """The spine's bridge of a rail, with the rail's gateway where one is planned."""
    ports = (port for node in plan.nodes for port in node.ports if port.rail == rail)
    first = next(ports, None)
    own = tuple((a.version, a.gateway, a.prefix) for a in (first.addresses if first else ()) if a.gateway)
    return CableEnd(SPINE, f"rail{rail}", SWITCH_MTU_BYTES, addresses=own)


def _down_ways(plan: Plan, leaves: list[tuple[int, int, str]], *, isolated: bool) -> Iterator[SwitchRoute]:
    """Every node's subnet by the leaf it is on."""
    numbers = {leaf: number for number, (_, _, leaf) in enumerate(leaves)}
    for node in plan.nodes:
        for port in node.ports:
            number = numbers[port.leaf]
            table = 100 + port.rail if isolated else 254
            yield from (_down(own, number, table) for own in port.addresses)


def _down(own: AddressPlan, number: int, table: int) -> SwitchRoute:
    return SwitchRoute(own.subnet, LINKS[own.version].base + 2 * number + 1, f"down{number}", table)


def build_default_route() -> SwitchRoute:
    """The default route of nodes and pods: over the management switch."""
    return SwitchRoute(Range(V4, 0, 0), MANAGEMENT_RANGE.base + 1, "eth0")
