"""The leaf switches that a Plan implies: their hosts in order of slot, and the settings of each port.

Routed (schemes point-to-point and node-subnet): a port has the plan's gateway as its address in each subnet. Example:
host 172.16.0.4/31, leaf 172.16.0.5/31. BGP announces the subnets to the spines.

Bridged (schemes shared-subnet and none): a port is an access port of its rail's VLAN. The gateway, where one is
planned, is the address of the VLAN interface on the rail's first leaf (lowest unit) only, so that it is unique. Other
leaves reach it through their uplinks, which carry all VLANs.
"""

from collections.abc import Iterator

import msgspec

from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import V4, format_address
from trackbed.fabric.plan.plan import AddressPlan, NodePlan, Plan, PortPlan, QosPlan
from trackbed.switches.wiring import NAME, Wiring, check_wiring

MTU_BYTES = 9216
"""MTU of every port: the maximum of current switches, which their RoCE guides use."""
ROUTED = ("point-to-point", "node-subnet")
"""Schemes in which each subnet has one port of one leaf."""


class LeafPort(msgspec.Struct, frozen=True, gc=False):
    """One port towards a host; `addresses` are the leaf's, as address/prefix, empty where it bridges."""

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


class LeafVlan(msgspec.Struct, frozen=True):
    """The VLAN of a bridged rail; `gateways` as address/prefix, empty where another device has the gateway."""

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
    vlans: tuple[LeafVlan, ...]
    """Empty where the leaf routes."""
    versions: tuple[int, ...]
    """IP versions that are planned."""
    asn: int
    router_id: str
    mtu_bytes: int
    host_mtu_bytes: int
    qos: QosPlan

    @property
    def is_routed(self) -> bool:
        """Whether the leaf routes between its ports instead of bridging them."""
        return not self.vlans


_Host = tuple[NodePlan, PortPlan]
"""A host with its port on a leaf."""


def group_hosts(plan: Plan) -> dict[str, list[_Host]]:
    """Return each leaf's hosts in order of slot; leaves are in order of unit and rail."""
    hosts: dict[str, list[_Host]] = {}
    for node in plan.nodes:
        for port in node.ports:
            hosts.setdefault(port.leaf, []).append((node, port))
    return dict(sorted(hosts.items(), key=lambda item: _number_leaf(plan, item[1])))


def derive_leaves(plan: Plan, wiring: Wiring) -> Iterator[Leaf]:
    """Yield all leaves; only for a plan and a wiring without problems (`check_leaves`)."""
    served: set[int] = set()
    for name, hosts in group_hosts(plan).items():
        yield _derive_leaf(plan, wiring, name, hosts, served)
        served.update(port.rail for _, port in hosts)


def check_leaves(plan: Plan, wiring: Wiring) -> list[Problem]:
    """Return the problems that prevent a configuration of the plan's leaves with this wiring."""
    common = plan.common
    if common.link_type != "ethernet":
        message = "InfiniBand switches are configured by their subnet manager, not by files; see opensm or UFM"
        return [Problem("infiniband", message, ("spec", "linkType"))]
    hosts = group_hosts(plan)
    numbers = 1 + max((_number_leaf(plan, leaf_hosts) for leaf_hosts in hosts.values()), default=0)
    problems = list(check_wiring(wiring, len(common.rails), numbers))
    if common.mtu_bytes > MTU_BYTES:
        message = f"mtu {common.mtu_bytes} is above the {MTU_BYTES} that a switch port carries"
        problems.append(Problem("mtu-too-large", message, ("spec", "mtu")))
    if wiring.uplinks4 and any(rail.v6 for rail in common.rails):
        message = "numbered uplinks carry IPv4 only, and IPv6 is planned; leave --uplink-range out: unnumbered has both"
        problems.append(Problem("uplink-range-ipv6", message))
    if wiring.uplinks4 and common.scheme not in ROUTED:
        message = f"scheme {common.scheme} is bridged, so uplinks have no addresses; leave --uplink-range out"
        problems.append(Problem("uplink-range-bridged", message))
    leaf_problems = [
        problem for name, leaf_hosts in hosts.items() if (problem := _check_leaf(name, leaf_hosts, wiring))
    ]
    return problems + list({problem.code: problem for problem in reversed(leaf_problems)}.values())


def iter_warnings(plan: Plan, wiring: Wiring) -> Iterator[str]:
    """Yield warnings about a rendered configuration that may be incomplete."""
    links = {(port.rail, port.leaf) for node in plan.nodes for port in node.ports}
    is_spanning = len(links) > len({rail for rail, _ in links})
    if (is_spanning or (plan.common.cross_rail == "routed" and len(links) > 1)) and not wiring.uplinks:
        yield "no uplinks are named, so each leaf reaches its own hosts only; name them with --uplinks"
    elif is_spanning and plan.common.scheme not in ROUTED:
        yield "a rail spans several leaves: its VLAN must reach all of them through the uplinks"
    if plan.common.scheme not in ROUTED and plan.common.cross_rail == "routed" and wiring.gateways:
        yield "each rail's gateway is put on its first leaf; --no-gateways where routers of their own have it"


def _number_leaf(plan: Plan, hosts: list[_Host]) -> int:
    """Return the number of a leaf, which changes only when rails are added."""
    return min(node.unit for node, _ in hosts) * len(plan.common.rails) + min(port.rail for _, port in hosts)


def _check_leaf(name: str, hosts: list[_Host], wiring: Wiring) -> Problem | None:
    """Check a leaf's name, and that it has a free port for each of its hosts."""
    if not NAME.fullmatch(name):
        message = f"leaf name {name!r} is no host name; letters, digits, '-', '_' and '.'"
        return Problem("bad-leaf-name", message, ("spec", "names", "leaf"))
    last = max(_list_positions(hosts))
    if last < len(wiring.ports):
        shared = set(wiring.uplinks) & set(wiring.ports[: last + 1])
        return Problem("doubled-port", f"{name}: {min(shared)} is an uplink and a host's port") if shared else None
    node, port = hosts[_list_positions(hosts).index(last)]
    message = (
        f"{name} has ports for {len(wiring.ports)} hosts, {node.name} (rail {port.rail}) would be on number "
        f"{last + 1}; name more with --ports, or set nodesPerUnit lower"
    )
    return Problem("too-few-ports", message, ("spec", "nodesPerUnit"))


def _list_positions(hosts: list[_Host]) -> list[int]:
    """Return the position of each host's port on the leaf, from 0."""
    units, rails = {node.unit for node, _ in hosts}, sorted({port.rail for _, port in hosts})
    per_unit, offsets = hosts[0][0].common.nodes_per_unit, {rail: index for index, rail in enumerate(rails)}
    slots = (node.slot if len(units) > 1 else node.slot % per_unit for node, _ in hosts)
    return [slot * len(rails) + offsets[port.rail] for slot, (_, port) in zip(slots, hosts, strict=True)]


def _derive_leaf(plan: Plan, wiring: Wiring, name: str, hosts: list[_Host], served: set[int]) -> Leaf:
    """Return one leaf; `served` has the rails that an earlier leaf is the first of."""
    number, rails = _number_leaf(plan, hosts), tuple(sorted({port.rail for _, port in hosts}))
    is_routed = plan.common.scheme in ROUTED
    ports = tuple(
        LeafPort(wiring.ports[position], node.name, port.rail, *_choose_addressing(port, wiring, is_routed=is_routed))
        for position, (node, port) in zip(_list_positions(hosts), hosts, strict=True)
    )
    first = {port.rail: port for _, port in reversed(hosts)}
    return Leaf(
        name=name,
        units=tuple(sorted({node.unit for node, _ in hosts})),
        rails=rails,
        ports=ports,
        uplinks=tuple(_iter_uplinks(wiring, number)),
        vlans=()
        if is_routed
        else tuple(_derive_vlan(first[rail], wiring, is_first=rail not in served) for rail in rails),
        versions=tuple(address.version for address in hosts[0][1].addresses),
        asn=wiring.first_asn + number,
        router_id=_derive_router_id(hosts[0][1], number),
        mtu_bytes=MTU_BYTES,
        host_mtu_bytes=plan.common.mtu_bytes,
        qos=plan.common.qos,
    )


def _choose_addressing(port: PortPlan, wiring: Wiring, *, is_routed: bool) -> tuple[tuple[str, ...], int]:
    """Return the addresses and the VLAN of the leaf's port."""
    if is_routed:
        return tuple(_format_gateway(address) for address in port.addresses), 0
    return (), wiring.first_vlan + port.rail


def _format_gateway(address: AddressPlan) -> str:
    return f"{format_address(address.version, address.gateway)}/{address.prefix}"


def _derive_vlan(port: PortPlan, wiring: Wiring, *, is_first: bool) -> LeafVlan:
    has_gateways = is_first and wiring.gateways
    gateways = tuple(_format_gateway(address) for address in port.addresses if address.gateway and has_gateways)
    return LeafVlan(wiring.first_vlan + port.rail, port.rail, gateways)


def _iter_uplinks(wiring: Wiring, number: int) -> Iterator[Uplink]:
    for index, name in enumerate(wiring.uplinks):
        if wiring.uplinks4 is None:
            yield Uplink(name)
            continue
        base = wiring.uplinks4.base + 2 * (number * len(wiring.uplinks) + index)
        yield Uplink(name, f"{format_address(V4, base)}/31", format_address(V4, base + 1))


def _derive_router_id(port: PortPlan, number: int) -> str:
    """Return the leaf's lowest IPv4 address; without IPv4, unique four bytes from 1.0.0.1 (RFC 6286)."""
    return (
        format_address(V4, port.v4.gateway)
        if port.v4 and port.v4.gateway
        else format_address(V4, (1 << 24) + 1 + number)
    )
