from itertools import chain

import pytest
from trackbed_lab.topology import (
    LINK_RANGES,
    MANAGEMENT,
    SPINE,
    CableEnd,
    Switch,
    Topology,
    build_topology,
    count_expected_hops,
)

from tests.lab.fabrics import FLAT, ISOLATED, NODE_SUBNET, P2P, SHARED, planned
from trackbed.fabric.plan.plan import NodePlan, Plan

ROUTED = {"point-to-point": P2P, "node-subnet": NODE_SUBNET}
ALL = ROUTED | {"shared-subnet": SHARED, "flat": FLAT}
EVERY_SCHEME = pytest.mark.parametrize("addressing", ALL.values(), ids=ALL)
EVERY_ROUTED_SCHEME = pytest.mark.parametrize("addressing", ROUTED.values(), ids=ROUTED)


def switch(made: Topology, name: str) -> Switch:
    return next(item for item in made.switches if item.name == name)


def plug(made: Topology, netns: str, name: str) -> CableEnd:
    """Return the end of a cable, or the bridge, of that name."""
    ends = (end for cable in made.cables for end in (cable.near, cable.far))
    bridges = (bridge for item in made.switches for bridge in item.bridges)
    return next(end for end in chain(ends, bridges) if (end.netns, end.name) == (netns, name))


def node(plan: Plan, name: str) -> NodePlan:
    return next(node for node in plan.nodes if node.name == name)


@EVERY_SCHEME
def test_each_node_each_leaf_the_spine_and_management_have_a_namespace(addressing: str) -> None:
    plan = planned(addressing)
    leaves = {port.leaf for node in plan.nodes for port in node.ports}
    made = build_topology(plan)
    assert len(leaves) == 4  # two units of two rails
    assert sorted(made.namespaces) == sorted({"node-0", "node-1", *leaves, SPINE, MANAGEMENT})


@EVERY_SCHEME
def test_each_port_is_cabled_to_its_own_leaf_and_left_down_for_the_host(addressing: str) -> None:
    plan = planned(addressing)
    made = build_topology(plan)
    cables = {(cable.near.netns, cable.far.netns): cable for cable in made.cables if not cable.near.up}
    assert set(cables) == {(node.name, port.leaf) for node in plan.nodes for port in node.ports}
    for (name, leaf), cable in cables.items():
        rail = next(port.rail for port in node(plan, name).ports if port.leaf == leaf)
        assert made.leaf_ends[name, rail] == (leaf, cable.far.name)
        assert cable.near.mtu_bytes == plan.common.mtu_bytes <= cable.far.mtu_bytes


@EVERY_SCHEME
def test_no_two_interfaces_of_a_namespace_share_a_name(addressing: str) -> None:
    made = build_topology(planned(addressing, hosts='"node-[0-6]"', per_unit=3))
    ends = [end for cable in made.cables for end in (cable.near, cable.far)]
    names = [(end.netns, end.name) for end in (*ends, *(b for s in made.switches for b in s.bridges))]
    assert len(names) == len(set(names))
    assert max(len(name) for _, name in names) <= 15  # IFNAMSIZ less its zero


@EVERY_SCHEME
def test_no_two_ports_share_a_mac_address(addressing: str) -> None:
    made = build_topology(planned(addressing, hosts='"node-[0-299]"', per_unit=32))
    macs = [cable.near.mac for cable in made.cables if not cable.near.up]
    assert len(macs) == len(set(macs)) == 600


@EVERY_ROUTED_SCHEME
def test_the_leaf_holds_the_gateway_of_each_of_its_ports_in_both_ip_versions(addressing: str) -> None:
    plan = planned(addressing)
    made = build_topology(plan)
    for node in plan.nodes:
        for port in node.ports:
            end = plug(made, *made.leaf_ends[node.name, port.rail])
            assert end.addresses == tuple(
                (addressing.version, addressing.gateway, addressing.prefix) for addressing in port.addresses
            )
            assert [version for version, _, _ in end.addresses] == [4, 6]


def test_a_leaf_of_point_to_point_has_the_odd_address_beside_the_host() -> None:
    plan = planned(P2P)
    made = build_topology(plan)
    port = plan.nodes[0].ports[0]
    assert port.v4 is not None
    (_, address, prefix), _ = plug(made, *made.leaf_ends["node-0", 0]).addresses
    assert (address, prefix) == (port.v4.address + 1, 31)
    assert address % 2 == 1


@EVERY_ROUTED_SCHEME
def test_the_ends_of_an_uplink_share_a_link_of_two_addresses(addressing: str) -> None:
    made = build_topology(planned(addressing))
    uplinks = [cable for cable in made.cables if cable.near.name == "up"]
    assert len(uplinks) == 4
    for cable in uplinks:
        for near, far in zip(cable.near.addresses, cable.far.addresses, strict=True):
            assert (near[0], near[1] >> 1, near[2]) == (far[0], far[1] >> 1, far[2])
            assert near[1] != far[1]


@EVERY_ROUTED_SCHEME
def test_the_addresses_between_switches_are_unique_and_none_of_the_plan(addressing: str) -> None:
    plan = planned(addressing)
    uplinks = [cable for cable in build_topology(plan).cables if cable.near.name == "up"]
    used = [address for cable in uplinks for end in (cable.near, cable.far) for address in end.addresses]
    assert len(used) == len(set(used)) == 16
    for version, address, _ in used:
        supernet = plan.common.get_supernet(version)
        assert supernet is not None
        assert not supernet.base <= address < supernet.base + supernet.size
        assert LINK_RANGES[version].base <= address < LINK_RANGES[version].base + LINK_RANGES[version].size


@EVERY_ROUTED_SCHEME
def test_the_spine_knows_each_ports_subnet_by_the_leaf_it_is_on(addressing: str) -> None:
    plan = planned(addressing)
    made = build_topology(plan)
    ups = {cable.far.name: cable.near for cable in made.cables if cable.near.name == "up"}
    ways = {route.destination: route for route in switch(made, SPINE).routes}
    for port in (port for node in plan.nodes for port in node.ports):
        for item in port.addresses:
            leaf = ups[ways[item.subnet].interface]
            assert leaf.netns == port.leaf
            assert ways[item.subnet].gateway in {address for _, address, _ in leaf.addresses}
    assert len(ways) == 8  # two nodes, two rails, two IP versions, and nothing else


@EVERY_ROUTED_SCHEME
def test_a_leaf_sends_what_is_not_its_own_to_the_spine(addressing: str) -> None:
    made = build_topology(planned(addressing))
    for cable in (cable for cable in made.cables if cable.near.name == "up"):
        ways = switch(made, cable.near.netns).routes
        assert [(route.destination.version, route.destination.prefix, route.interface) for route in ways] == [
            (4, 0, "up"),
            (6, 0, "up"),
        ]
        assert {route.gateway for route in ways} == {address for _, address, _ in cable.far.addresses}


@EVERY_ROUTED_SCHEME
def test_isolated_rails_are_looked_up_where_no_other_rail_is_known(addressing: str) -> None:
    plan = planned(addressing, ISOLATED)
    made = build_topology(plan)
    spine = switch(made, SPINE)
    rails = {port.leaf: port.rail for node in plan.nodes for port in node.ports}
    below = {cable.far.name: rails[cable.near.netns] for cable in made.cables if cable.near.name == "up"}
    tables = dict(spine.lookups)
    assert tables == {name: 100 + rail for name, rail in below.items()}
    for route in spine.routes:
        if route.unreachable:
            assert route.destination.prefix == 0
        else:
            assert route.table == tables[route.interface]
    closed = {(route.destination.version, route.table) for route in spine.routes if route.unreachable}
    assert closed == {(version, table) for version in (4, 6) for table in (100, 101)}


@pytest.mark.parametrize("addressing", [SHARED, FLAT], ids=["gateway", "no-gateway"])
def test_a_leaf_of_a_shared_subnet_only_bridges(addressing: str) -> None:
    plan = planned(addressing)
    made = build_topology(plan)
    for leaf in {port.leaf for node in plan.nodes for port in node.ports}:
        ends = [e for c in made.cables for e in (c.near, c.far) if e.netns == leaf]
        assert {end.bridge for end in ends} == {"br0"}
        assert [end.addresses for end in ends] == [()] * len(ends)
        assert switch(made, leaf).routes == ()


@pytest.mark.parametrize("addressing", [SHARED, FLAT], ids=["gateway", "no-gateway"])
def test_the_spine_joins_the_units_of_a_shared_rail(addressing: str) -> None:
    made = build_topology(planned(addressing))
    joined = sorted(cable.far.bridge or "" for cable in made.cables if cable.near.name == "up")
    assert joined == ["rail0", "rail0", "rail1", "rail1"]
    assert [bridge.name for bridge in switch(made, SPINE).bridges] == ["rail0", "rail1"]


def test_the_spine_has_the_gateway_of_a_shared_rail_where_one_is_planned() -> None:
    plan = planned(SHARED)
    spine = switch(build_topology(plan), SPINE)
    for bridge, port in zip(spine.bridges, plan.nodes[0].ports, strict=True):
        assert bridge.addresses == tuple(
            (addressing.version, addressing.gateway, addressing.prefix) for addressing in port.addresses
        )
        assert all(address for _, address, _ in bridge.addresses)
    assert [bridge.addresses for bridge in switch(build_topology(planned(FLAT)), SPINE).bridges] == [(), ()]


def test_management_addresses_of_nodes_are_unique() -> None:
    made = build_topology(planned(P2P, hosts='"node-[0-299]"', per_unit=32))
    addresses = [cable.near.addresses for cable in made.cables if cable.near.name == "eth0"]
    assert len(addresses) == len(set(addresses)) == 300


HOPS = [
    ("same-node-other-rail", P2P, ("node-0", 0), ("node-0", 1), 0),
    ("same-leaf", P2P, ("node-0", 0), ("node-1", 0), 1),
    ("same-unit-other-rail", P2P, ("node-0", 0), ("node-1", 1), 3),
    ("other-unit-same-rail", P2P, ("node-0", 0), ("node-2", 0), 3),
    ("other-unit-other-rail", NODE_SUBNET, ("node-0", 0), ("node-3", 1), 3),
    ("shared-same-rail", SHARED, ("node-0", 0), ("node-2", 0), 0),
    ("shared-other-rail", SHARED, ("node-0", 0), ("node-2", 1), 1),
]


@pytest.mark.parametrize(
    ("addressing", "source", "other", "routers"), [row[1:] for row in HOPS], ids=[r[0] for r in HOPS]
)
def test_hops_are_the_routers_that_the_cables_pass(
    addressing: str, source: tuple[str, int], other: tuple[str, int], routers: int
) -> None:
    plan = planned(addressing, hosts='"node-[0-3]"', per_unit=2)
    ends = [(node(plan, name), rail) for name, rail in (source, other)]
    assert count_expected_hops(plan, *ends) == routers
    assert count_expected_hops(plan, *reversed(ends)) == routers
