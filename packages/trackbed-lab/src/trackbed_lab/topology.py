"""The lab's network as data: namespaces, cables, addresses, routes. Module `netns` builds it.

    point-to-point, node-subnet     a leaf routes: each of its ports has a node's gateway, its uplink goes to the spine
    shared-subnet                   a leaf is a bridge; its uplink goes to the spine's bridge of the rail, which has the
                                    gateway where one is planned

    node --- port r --- leaf (unit, rail) --- spine        and every node's eth0 --- mgmt

Where rails are isolated, the spine has a routing table for each rail without routes to the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trackbed.fabric.model.ranges import BITS, V4, Range

if TYPE_CHECKING:  # the LLDP speaker of each leaf starts without the plan
    from trackbed.fabric.plan.plan import AddressPlan, NodePlan, Plan, PortPlan

SPINE, MANAGEMENT = "spine", "mgmt"
LINK_RANGES = {4: Range(4, 100 << 24 | 64 << 16, 16), 6: Range(6, 0xFD64 << 112, 64)}
"""Addresses between leaves and spine: shared address space (RFC 6598), which Fabrics do not use."""
MANAGEMENT_RANGE = Range(4, 198 << 24 | 18 << 16, 15)
"""198.18.0.0/15, reserved for benchmarks (RFC 2544)."""
SWITCH_MTU_BYTES = 9216
_FIRST_NODE, _FIRST_POD = 10, 1 << 16 | 10


@dataclass(frozen=True, slots=True)
class CableEnd:
    """One end of a cable: an interface, its namespace and settings, and the bridge that it is a port of."""

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
    """A cable: a veth pair."""

    near: CableEnd
    far: CableEnd


@dataclass(frozen=True, slots=True)
class SwitchRoute:
    """A route of a switch; `gateway` is 0 for a connected route, table 254 is the main table."""

    destination: Range
    gateway: int
    interface: str
    table: int = 254
    unreachable: bool = False


@dataclass(frozen=True, slots=True)
class Switch:
    """A leaf, the spine or the management switch."""

    name: str
    bridges: tuple[CableEnd, ...] = ()
    routes: tuple[SwitchRoute, ...] = ()
    lookups: tuple[tuple[str, int], ...] = ()
    """(interface, table): packets that arrive on the interface are routed by that table only."""


@dataclass(frozen=True, slots=True)
class Topology:
    """The whole network of a lab."""

    nodes: tuple[str, ...]
    switches: tuple[Switch, ...]
    cables: tuple[Cable, ...]
    leaf_ends: dict[tuple[str, int], tuple[str, str]] = field(default_factory=dict)
    """(node, rail) -> (leaf, interface)."""

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The names of all namespaces."""
        return (*self.nodes, *(switch.name for switch in self.switches))


def build_topology(plan: Plan) -> Topology:
    """Return the network of a plan."""
    leaves = sorted({(node.unit, port.rail, port.leaf) for node in plan.nodes for port in node.ports})
    ends = dict(_assign_leaf_interfaces(plan))
    ports = [_build_port_cable(plan, node, port, ends) for node in plan.nodes for port in node.ports]
    uplinks = [_build_uplink(plan, number, rail, leaf) for number, (_, rail, leaf) in enumerate(leaves)]
    management = [_build_management_cable(number, node.name) for number, node in enumerate(plan.nodes)]
    switches = [
        *(_build_leaf(plan, number, leaf) for number, (_, _, leaf) in enumerate(leaves)),
        _build_spine(plan, leaves),
        Switch(MANAGEMENT, (CableEnd(MANAGEMENT, "br0", 1500, addresses=((4, MANAGEMENT_RANGE.base + 1, 15),)),)),
    ]
    names = tuple(node.name for node in plan.nodes)
    return Topology(names, tuple(switches), (*ports, *uplinks, *management), ends)


def get_management_address(number: int) -> int:
    """Return the IPv4 address of a node's eth0; nodes are numbered in the order of the plan."""
    return MANAGEMENT_RANGE.base + _FIRST_NODE + number


def get_pod_address(number: int) -> int:
    """Return the IPv4 address of a pod's eth0; pods are numbered across the whole lab."""
    return MANAGEMENT_RANGE.base + _FIRST_POD + number


def count_expected_hops(plan: Plan, source: tuple[NodePlan, int], target: tuple[NodePlan, int]) -> int:
    """Return the number of routers between two ports, each given by node and rail."""
    (node, rail), (peer, peer_rail) = source, target
    if node.name == peer.name:
        return 0
    if plan.common.has_shared_subnets:
        return 0 if rail == peer_rail else 1
    return 1 if rail == peer_rail and node.unit == peer.unit else 3


def _assign_leaf_interfaces(plan: Plan) -> Iterator[tuple[tuple[str, int], tuple[str, str]]]:
    """Yield (node, rail) and (leaf, interface) of each port; a leaf's interfaces are numbered swp1, swp2, ..."""
    ports_by_leaf: Counter[str] = Counter()
    for node in plan.nodes:
        for port in node.ports:
            ports_by_leaf[port.leaf] += 1
            yield (node.name, port.rail), (port.leaf, f"swp{ports_by_leaf[port.leaf]}")


def choose_kernel_name(port: PortPlan) -> str:
    """Return a port's name before apply: the planned one, or another if apply can find the port by its MAC address."""
    return port.kernel_name or (f"nic{port.rail}" if port.mac else port.netdev)


def _choose_mac(node: NodePlan, port: PortPlan) -> str:
    return port.mac or f"02:7b:{node.slot >> 8 & 255:02x}:{node.slot & 255:02x}:00:{port.rail:02x}"


def _build_port_cable(
    plan: Plan, node: NodePlan, port: PortPlan, ends: dict[tuple[str, int], tuple[str, str]]
) -> Cable:
    leaf, interface = ends[node.name, port.rail]
    gateways = tuple((item.version, item.gateway, item.prefix) for item in port.addresses if item.gateway)
    near = CableEnd(node.name, choose_kernel_name(port), plan.common.mtu_bytes, _choose_mac(node, port), up=False)
    if not plan.common.is_routed:
        return Cable(near, CableEnd(leaf, interface, SWITCH_MTU_BYTES, bridge="br0"))
    return Cable(near, CableEnd(leaf, interface, SWITCH_MTU_BYTES, addresses=gateways))


def _list_versions(plan: Plan) -> list[int]:
    """Return the IP versions of the plan."""
    return [version for version in (4, 6) if plan.common.get_supernet(version)]


def _build_link_addresses(plan: Plan, number: int, end: int) -> tuple[tuple[int, int, int], ...]:
    """Return the addresses of one end of uplink `number`: 0 at the spine, 1 at the leaf."""
    versions = _list_versions(plan)
    return tuple((version, LINK_RANGES[version].base + 2 * number + end, BITS[version] - 1) for version in versions)


def _build_uplink(plan: Plan, number: int, rail: int, leaf: str) -> Cable:
    down = f"down{number}"
    if not plan.common.is_routed:
        near = CableEnd(leaf, "up", SWITCH_MTU_BYTES, bridge="br0")
        return Cable(near, CableEnd(SPINE, down, SWITCH_MTU_BYTES, bridge=f"rail{rail}"))
    near = CableEnd(leaf, "up", SWITCH_MTU_BYTES, addresses=_build_link_addresses(plan, number, 1))
    return Cable(near, CableEnd(SPINE, down, SWITCH_MTU_BYTES, addresses=_build_link_addresses(plan, number, 0)))


def _build_management_cable(number: int, node: str) -> Cable:
    eth0 = CableEnd(node, "eth0", 1500, addresses=((4, get_management_address(number), 15),))
    return Cable(eth0, CableEnd(MANAGEMENT, f"node{number}", 1500, bridge="br0"))


def _build_leaf(plan: Plan, number: int, leaf: str) -> Switch:
    if not plan.common.is_routed:
        return Switch(leaf, (CableEnd(leaf, "br0", SWITCH_MTU_BYTES),))
    routes = tuple(
        SwitchRoute(Range(version, 0, 0), LINK_RANGES[version].base + 2 * number, "up")
        for version in _list_versions(plan)
    )
    return Switch(leaf, routes=routes)


def _build_spine(plan: Plan, leaves: list[tuple[int, int, str]]) -> Switch:
    isolated = plan.common.cross_rail == "isolated"
    if not plan.common.is_routed:
        bridges = tuple(_build_rail_bridge(plan, rail) for rail in range(len(plan.common.rails)))
        lookups = tuple(
            (bridge.name, 100 + rail) for rail, bridge in enumerate(bridges) if isolated and bridge.addresses
        )
        tables = [table for _, table in lookups]
        return Switch(SPINE, bridges, tuple(_build_unreachable_routes(plan, tables)), lookups)
    routes = _build_leaf_routes(plan, leaves, isolated=isolated)
    lookups = tuple((f"down{number}", 100 + rail) for number, (_, rail, _) in enumerate(leaves) if isolated)
    tables = sorted({table for _, table in lookups})
    return Switch(SPINE, routes=(*routes, *_build_unreachable_routes(plan, tables)), lookups=lookups)


def _build_unreachable_routes(plan: Plan, tables: Iterable[int]) -> Iterator[SwitchRoute]:
    """Yield default routes that reject all other packets."""
    for table in tables:
        for version in _list_versions(plan):
            yield SwitchRoute(Range(version, 0, 0), 0, "", table, unreachable=True)


def _build_rail_bridge(plan: Plan, rail: int) -> CableEnd:
    """Return the spine's bridge of a rail, with the rail's gateway where one is planned."""
    ports = (port for node in plan.nodes for port in node.ports if port.rail == rail)
    first = next(ports, None)
    addressed = first.addresses if first else ()
    gateways = tuple((item.version, item.gateway, item.prefix) for item in addressed if item.gateway)
    return CableEnd(SPINE, f"rail{rail}", SWITCH_MTU_BYTES, addresses=gateways)


def _build_leaf_routes(plan: Plan, leaves: list[tuple[int, int, str]], *, isolated: bool) -> Iterator[SwitchRoute]:
    """Yield the spine's routes to each port's subnet through the port's leaf."""
    numbers = {leaf: number for number, (_, _, leaf) in enumerate(leaves)}
    for node in plan.nodes:
        for port in node.ports:
            table = 100 + port.rail if isolated else 254
            yield from (_build_leaf_route(addressing, numbers[port.leaf], table) for addressing in port.addresses)


def _build_leaf_route(addressing: AddressPlan, number: int, table: int) -> SwitchRoute:
    gateway = LINK_RANGES[addressing.version].base + 2 * number + 1
    return SwitchRoute(addressing.subnet, gateway, f"down{number}", table)


def build_default_route() -> SwitchRoute:
    """Return the default route of nodes and pods, over the management switch."""
    return SwitchRoute(Range(V4, 0, 0), MANAGEMENT_RANGE.base + 1, "eth0")
