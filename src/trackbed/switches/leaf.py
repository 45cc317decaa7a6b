"""Leaf switches that a Plan implies: their hosts in order of slot, and the settings of each port.

Routed (schemes point-to-point and node-subnet): a port has the plan's gateway as its address in each subnet. Example:
host 172.16.0.4/31, leaf 172.16.0.5/31. BGP announces the subnets to the spines.

Bridged (schemes shared-subnet and none): a port is an access port of its rail's VLAN. A planned gateway is the address
of the VLAN interface on the rail's first leaf (lowest unit) only, so that it is unique. Other leaves reach it through
their uplinks, which carry all VLANs.
"""

from collections.abc import Iterator

import msgspec

from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import V4, format_address
from trackbed.fabric.plan.plan import AddressPlan, NodePlan, Plan, PortPlan, QosPlan
from trackbed.switches.wiring import NAME_PATTERN, Wiring, check_uplinks_and_rails, check_wiring

MTU_BYTES = 9216
"""MTU of every port: the maximum of current switches, as their RoCE guides recommend."""
CNP_CLASS = 6
"""Traffic class of congestion notifications in stock configurations."""


class LeafPort(msgspec.Struct, frozen=True, gc=False):
    """One port towards a host; `addresses` are the leaf's on it, as address/prefix, and empty if the leaf bridges."""

    name: str
    node: str
    rail: int
    addresses: tuple[str, ...]
    vlan: int = 0
    """VLAN of an access port; 0 if the leaf routes."""


class Uplink(msgspec.Struct, frozen=True, gc=False):
    """One port towards a spine. `address` (with prefix) and `spine` (its address) are empty if BGP is unnumbered."""

    name: str
    address: str = ""
    spine: str = ""


class LeafVlan(msgspec.Struct, frozen=True):
    """The VLAN of a bridged rail; `gateways` are address/prefix, and empty if another device has the gateway."""

    number: int
    rail: int
    gateways: tuple[str, ...]


class Leaf(msgspec.Struct, frozen=True):
    """The configuration of one leaf switch, independent of its operating system."""

    name: str
    units: tuple[int, ...]
    rails: tuple[int, ...]
    ports: tuple[LeafPort, ...]
    uplinks: tuple[Uplink, ...]
    vlans: tuple[LeafVlan, ...]
    """VLANs of bridged rails; empty if the leaf routes."""
    ip_versions: tuple[int, ...]
    """Planned IP versions: 4, 6 or both."""
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
"""A node, and its port that is cabled to the leaf."""


def group_hosts_by_leaf(plan: Plan) -> dict[str, list[_Host]]:
    """Return name of a leaf -> its hosts in order of slot; leaves are in order of unit and rail."""
    hosts: dict[str, list[_Host]] = {}
    for node in plan.nodes:
        for port in node.ports:
            hosts.setdefault(port.leaf, []).append((node, port))
    return dict(sorted(hosts.items(), key=lambda item: _compute_leaf_number(plan, item[1])))


def derive_leaves(plan: Plan, wiring: Wiring) -> Iterator[Leaf]:
    """Yield the plan's leaves; requires that `check_leaves` found no problems."""
    served_rails: set[int] = set()
    for name, hosts in group_hosts_by_leaf(plan).items():
        yield _derive_leaf(plan, wiring, name, hosts, served_rails)
        served_rails.update(port.rail for _, port in hosts)


def check_leaves(plan: Plan, wiring: Wiring) -> list[Problem]:
    """Return the problems that prevent configuring the plan's leaves with this wiring."""
    common = plan.common
    if common.link_type != "ethernet":
        message = "InfiniBand switches are configured by their subnet manager, not by files; see opensm or UFM"
        return [Problem("infiniband", message, ("spec", "linkType"))]
    hosts = group_hosts_by_leaf(plan)
    numbers = 1 + max((_compute_leaf_number(plan, leaf_hosts) for leaf_hosts in hosts.values()), default=0)
    problems = [
        *check_wiring(wiring, len(common.rails), numbers),
        *check_uplinks_and_rails(wiring, common.rails),
    ]
    if common.mtu_bytes > MTU_BYTES:
        message = f"mtu {common.mtu_bytes} is above the {MTU_BYTES} that a switch port carries"
        problems.append(Problem("mtu-too-large", message, ("spec", "mtu")))
    if wiring.uplinks4 and any(rail.v6 for rail in common.rails):
        message = "numbered uplinks carry IPv4 only, and IPv6 is planned; leave --uplink-range out: unnumbered has both"
        problems.append(Problem("uplink-range-ipv6", message))
    if wiring.uplinks4 and not common.is_routed:
        message = f"scheme {common.scheme} is bridged, so uplinks have no addresses; leave --uplink-range out"
        problems.append(Problem("uplink-range-bridged", message))
    leaf_problems = [
        problem for name, leaf_hosts in hosts.items() if (problem := _check_leaf(name, leaf_hosts, wiring))
    ]
    return problems + list({problem.code: problem for problem in reversed(leaf_problems)}.values())


def iter_warnings(plan: Plan, wiring: Wiring) -> Iterator[str]:
    """Yield warnings about settings that a rendered configuration may lack."""
    links = {(port.rail, port.leaf) for node in plan.nodes for port in node.ports}
    is_spanning = len(links) > len({rail for rail, _ in links})
    if (is_spanning or (plan.common.cross_rail == "routed" and len(links) > 1)) and not wiring.uplinks:
        yield "no uplinks are named, so each leaf reaches its own hosts only; name them with --uplinks"
    elif is_spanning and not plan.common.is_routed:
        yield "a rail spans several leaves: its VLAN must reach all of them through the uplinks"
    if not plan.common.is_routed and plan.common.cross_rail == "routed" and wiring.gateways:
        yield "each rail's gateway is put on its first leaf; use --no-gateways if separate routers have it"


def _compute_leaf_number(plan: Plan, hosts: list[_Host]) -> int:
    """Return the number of a leaf, from 0; it changes only if the number of rails changes."""
    return min(node.unit for node, _ in hosts) * len(plan.common.rails) + min(port.rail for _, port in hosts)


def _check_leaf(name: str, hosts: list[_Host], wiring: Wiring) -> Problem | None:
    """Return a problem with a leaf's name or with the ports for its hosts; None if there is none."""
    if not NAME_PATTERN.fullmatch(name):
        message = f"leaf name {name!r} is not a host name; use letters, digits, '-', '_' and '.'"
        return Problem("bad-leaf-name", message, ("spec", "names", "leaf"))
    last = max(_list_port_positions(hosts))
    if last < len(wiring.ports):
        shared = set(wiring.uplinks) & set(wiring.ports[: last + 1])
        return Problem("doubled-port", f"{name}: {min(shared)} is an uplink and a host's port") if shared else None
    node, port = hosts[_list_port_positions(hosts).index(last)]
    message = (
        f"{name} has ports for {len(wiring.ports)} hosts, {node.name} (rail {port.rail}) would be on number "
        f"{last + 1}; name more with --ports, or lower nodesPerUnit"
    )
    return Problem("too-few-ports", message, ("spec", "nodesPerUnit"))


def _list_port_positions(hosts: list[_Host]) -> list[int]:
    """Return the position of each host on the leaf, which is an index into `Wiring.ports`."""
    units, rails = {node.unit for node, _ in hosts}, sorted({port.rail for _, port in hosts})
    per_unit, offsets = hosts[0][0].common.nodes_per_unit, {rail: index for index, rail in enumerate(rails)}
    slots = (node.slot if len(units) > 1 else node.slot % per_unit for node, _ in hosts)
    return [slot * len(rails) + offsets[port.rail] for slot, (_, port) in zip(slots, hosts, strict=True)]


def _derive_leaf(plan: Plan, wiring: Wiring, name: str, hosts: list[_Host], served_rails: set[int]) -> Leaf:
    """Derive one leaf; `served_rails` are the rails whose gateway is on an earlier leaf."""
    number, rails = _compute_leaf_number(plan, hosts), tuple(sorted({port.rail for _, port in hosts}))
    is_routed = plan.common.is_routed
    ports = tuple(
        LeafPort(
            wiring.ports[position],
            node.name,
            port.rail,
            tuple(map(_format_gateway, port.addresses)) if is_routed else (),
            0 if is_routed else wiring.first_vlan + port.rail,
        )
        for position, (node, port) in zip(_list_port_positions(hosts), hosts, strict=True)
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
        else tuple(_derive_vlan(first[rail], wiring, is_first=rail not in served_rails) for rail in rails),
        ip_versions=tuple(address.version for address in hosts[0][1].addresses),
        asn=wiring.first_asn + number,
        router_id=_derive_router_id(hosts[0][1], number),
        mtu_bytes=MTU_BYTES,
        host_mtu_bytes=plan.common.mtu_bytes,
        qos=plan.common.qos,
    )


def _format_gateway(address: AddressPlan) -> str:
    return f"{format_address(address.version, address.gateway)}/{address.prefix}"


def _derive_vlan(port: PortPlan, wiring: Wiring, *, is_first: bool) -> LeafVlan:
    has_gateways = is_first and wiring.gateways
    gateways = tuple(_format_gateway(address) for address in port.addresses if address.gateway and has_gateways)
    return LeafVlan(wiring.first_vlan + port.rail, port.rail, gateways)


def _iter_uplinks(wiring: Wiring, leaf_number: int) -> Iterator[Uplink]:
    for index, name in enumerate(wiring.uplinks):
        if wiring.uplinks4 is None:
            yield Uplink(name)
            continue
        base = wiring.uplinks4.base + 2 * (leaf_number * len(wiring.uplinks) + index)
        yield Uplink(name, f"{format_address(V4, base)}/31", format_address(V4, base + 1))


def _derive_router_id(port: PortPlan, leaf_number: int) -> str:
    """Return the leaf's lowest IPv4 address or, without IPv4, four unique bytes (RFC 6286): 1.0.0.1 plus its number."""
    gateway = port.v4.gateway if port.v4 else 0
    return format_address(V4, gateway or (1 << 24) + 1 + leaf_number)


def choose_cnp_class(qos: QosPlan) -> int:
    """Return the traffic class of congestion notifications: 6 as in stock configurations, or 7 if RDMA has 6."""
    return 7 if qos.priority == CNP_CLASS else CNP_CLASS
