"""Leaves of a plan, the port of each host, and the settings of the leaf's ports."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings

from tests.fabric.plan.fabrics import fabric, fabrics
from tests.switches.leaves import ADDRESSING, build_wiring, derive_sound_leaves, plan_case
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.model.ranges import format_address, parse_range
from trackbed.fabric.plan.compute import compute_plan
from trackbed.switches.dialects import load_dialect
from trackbed.switches.leaf import MTU_BYTES, Leaf, check_leaves, derive_leaves, iter_warnings
from trackbed.switches.wiring import Wiring

NVUE = load_dialect("nvue")
UNITS: dict[str, Any] = {"nodes": [{"hosts": "gpu-[0-4]"}], "nodesPerUnit": 2}


@pytest.mark.parametrize(
    ("case", "addresses", "vlan"),
    [
        pytest.param("point-to-point", ("172.16.0.1/31",), 0, id="the odd address of a /31"),
        pytest.param("node-subnet", ("10.0.0.1/27",), 0, id="the first address of the node's subnet"),
        pytest.param("dual-stack", ("10.0.0.1/27", "fd00:10::1/64"), 0, id="one of each version"),
        pytest.param("shared-subnet", (), 100, id="a port of the rail's VLAN"),
        pytest.param("none", (), 100, id="bridged where nothing is addressed"),
    ],
)
def test_the_side_of_the_leaf_follows_from_the_scheme(case: str, addresses: tuple[str, ...], vlan: int) -> None:
    port = derive_sound_leaves("nvue", plan_case(case))[0].ports[0]
    assert (port.addresses, port.vlan) == (addresses, vlan)


def test_the_leaf_has_the_second_address_of_an_ipv6_subnet_that_is_wider() -> None:
    addressing = ADDRESSING["point-to-point"] | {"ipv6": "fd02::/32", "ipv6NodePrefix": 64}
    port = derive_sound_leaves("nvue", plan_case(addressing=addressing))[0].ports[0]
    assert port.addresses == ("172.16.0.1/31", "fd02::2/64")


def test_leaves_come_in_order_of_unit_and_rail() -> None:
    leaves = derive_sound_leaves("nvue", plan_case(**UNITS))
    names = ["leaf-u0-r0", "leaf-u0-r1", "leaf-u1-r0", "leaf-u1-r1", "leaf-u2-r0", "leaf-u2-r1"]
    assert [leaf.name for leaf in leaves] == names
    assert [leaf.asn for leaf in leaves] == [4_200_000_000 + number for number in range(6)]


def test_a_host_that_leaves_moves_nobody() -> None:
    before = plan_hosts("gpu-[0-3]", {})
    after = plan_hosts("gpu-[0,2-3]", {"gpu-0": 0, "gpu-1": 1, "gpu-2": 2, "gpu-3": 3})
    assert map_ports(before) - map_ports(after) == {("gpu-1", 0, "swp2"), ("gpu-1", 1, "swp2")}
    assert map_ports(after) <= map_ports(before)


def plan_hosts(hosts: str, lock: dict[str, int]) -> list[Leaf]:
    spec = {"nodes": [{"hosts": hosts}], "rails": 2, "addressing": ADDRESSING["point-to-point"]}
    return list(derive_leaves(compute_plan(fabric(**spec), lock), build_wiring(NVUE)))


def map_ports(leaves: list[Leaf]) -> set[tuple[str, int, str]]:
    return {(port.node, port.rail, port.name) for leaf in leaves for port in leaf.ports}


def test_one_leaf_may_serve_several_units() -> None:
    leaves = derive_sound_leaves("nvue", plan_case(**UNITS, names={"leaf": "rail{rail}"}))
    assert [(leaf.name, leaf.units) for leaf in leaves] == [("rail0", (0, 1, 2)), ("rail1", (0, 1, 2))]
    assert [port.name for port in leaves[0].ports] == ["swp1", "swp2", "swp3", "swp4", "swp5"]


def test_a_gateway_is_on_the_first_leaf_of_its_rail_only() -> None:
    leaves = derive_sound_leaves("nvue", plan_case("shared-subnet", **UNITS))
    have = {leaf.name: [gateway for vlan in leaf.vlans for gateway in vlan.gateways] for leaf in leaves}
    assert {name: some for name, some in have.items() if some} == {
        "leaf-u0-r0": ["10.3.255.254/14"],
        "leaf-u0-r1": ["10.7.255.254/14"],
    }


@pytest.mark.parametrize(
    ("case", "fields"),
    [pytest.param("flat", {}, id="none planned"), pytest.param("shared-subnet", {"gateways": False}, id="elsewhere")],
)
def test_no_leaf_has_a_gateway_that_is_not_its_own(case: str, fields: dict[str, object]) -> None:
    assert [
        vlan.gateways for leaf in derive_sound_leaves("nvue", plan_case(case), **fields) for vlan in leaf.vlans
    ] == [(), ()]


@settings(max_examples=60, deadline=None)
@given(fabrics())
def test_every_gateway_of_the_plan_is_on_one_leaf_and_the_right_one(any_fabric: Fabric) -> None:
    plan = compute_plan(any_fabric, {})
    has: Counter[tuple[str, str]] = Counter()
    for leaf in derive_leaves(plan, Wiring(NVUE.list_ports(128))):
        has.update((leaf.name, address) for port in leaf.ports for address in port.addresses)
        has.update((leaf.name, gateway) for vlan in leaf.vlans for gateway in vlan.gateways)
    wanted = {
        (port.leaf, f"{format_address(address.version, address.gateway)}/{address.prefix}")
        for node in plan.nodes
        for port in node.ports
        for address in port.addresses
        if address.gateway
    }
    addresses = [address for _, address in has]
    assert max(has.values(), default=0) <= 1
    assert len(set(addresses)) == len(addresses) == len({address for _, address in wanted})
    assert set(has) <= wanted
    assert not plan.common.is_routed or set(has) == wanted


@settings(max_examples=30, deadline=None)
@given(fabrics())
def test_every_host_has_a_port_of_its_own_on_each_rail(any_fabric: Fabric) -> None:
    plan = compute_plan(any_fabric, {})
    leaves = list(derive_leaves(plan, Wiring(NVUE.list_ports(128))))
    assert sorted((port.node, port.rail) for leaf in leaves for port in leaf.ports) == sorted(
        (node.name, port.rail) for node in plan.nodes for port in node.ports
    )
    assert all(len({port.name for port in leaf.ports}) == len(leaf.ports) for leaf in leaves)
    assert len({leaf.asn for leaf in leaves}) == len(leaves)
    assert not leaves[0].is_routed or len({leaf.router_id for leaf in leaves}) == len(leaves)


def test_numbered_uplinks_have_a_range_of_two_each() -> None:
    leaves = derive_sound_leaves("nvue", plan_case(**UNITS), uplinks4=parse_range("10.254.0.0/24"))
    links = [(uplink.address, uplink.spine) for leaf in leaves for uplink in leaf.uplinks]
    assert links[:3] == [
        ("10.254.0.0/31", "10.254.0.1"),
        ("10.254.0.2/31", "10.254.0.3"),
        ("10.254.0.4/31", "10.254.0.5"),
    ]
    assert len(set(links)) == 12


@pytest.mark.parametrize(
    ("case", "spec", "fields", "codes"),
    [
        pytest.param("none", {"linkType": "infiniband"}, {}, ["infiniband"], id="a subnet manager configures"),
        pytest.param("flat", {"mtu": 9217}, {}, ["mtu-too-large"], id="mtu"),
        pytest.param("flat", {}, {"ports": ("swp1",)}, ["too-few-ports"], id="ports"),
        pytest.param("flat", {}, {"ports": ("swp1", "swp2;reboot")}, ["bad-port"], id="a name that is a command"),
        pytest.param("flat", {}, {"ports": ("swp1", "swp1")}, ["doubled-port"], id="a port twice"),
        pytest.param("flat", {}, {"uplinks": ("swp2",)}, ["doubled-port"], id="an uplink with a host"),
        pytest.param("flat", {"names": {"leaf": "_b{rail}"}}, {}, ["bad-leaf-name"], id="a name"),
        pytest.param("flat", {}, {"first_vlan": 4094}, ["bad-vlan"], id="vlan"),
        pytest.param("flat", {}, {"first_vlan": 1}, ["bad-vlan"], id="the default VLAN"),
        pytest.param("flat", {}, {"first_asn": 64512}, ["bad-asn"], id="asn"),
        pytest.param("flat", {}, {"uplinks4": "10.254.0.0/24"}, ["uplink-range-bridged"], id="bridged and numbered"),
        pytest.param("node-subnet", {}, {"uplinks4": "10.254.0.0/30"}, ["uplink-range-full"], id="range too small"),
        pytest.param("dual-stack", {}, {"uplinks4": "10.254.0.0/24"}, ["uplink-range-ipv6"], id="IPv6 and numbered"),
        pytest.param("node-subnet", {}, {"uplinks4": "fd00::/64"}, ["bad-uplink-range"], id="IPv6 range"),
        pytest.param("node-subnet", {}, {"uplinks4": "10.3.0.0/24"}, ["uplink-range-overlap"], id="range in a rail"),
        pytest.param("node-subnet", {}, {"uplinks4": "10.0.0.0/8"}, ["uplink-range-overlap"] * 2, id="rails in range"),
    ],
)
def test_what_cannot_be_is_refused(
    case: str, spec: dict[str, Any], fields: dict[str, object], codes: list[str]
) -> None:
    if "uplinks4" in fields:
        fields = fields | {"uplinks4": parse_range(str(fields["uplinks4"]))}
    assert [problem.code for problem in check_leaves(plan_case(case, **spec), build_wiring(NVUE, **fields))] == codes


def test_vlans_may_start_at_the_lowest_number() -> None:
    assert [leaf.ports[0].vlan for leaf in derive_sound_leaves("sonic", plan_case("flat"), first_vlan=2)] == [2, 3]


def test_an_uplink_range_may_lie_beside_the_rails() -> None:
    leaves = derive_sound_leaves("nvue", plan_case("node-subnet"), uplinks4=parse_range("10.8.0.0/24"))
    assert leaves[0].uplinks[0].address == "10.8.0.0/31"


def test_too_few_ports_names_the_host_without_one() -> None:
    problems = check_leaves(plan_case(**UNITS), build_wiring(NVUE, ports=("swp1",)))
    assert [problem.message for problem in problems] == [
        (
            "leaf-u0-r0 has ports for 1 hosts, gpu-1 (rail 0) would be on number 2; "
            "name more with --ports, or lower nodesPerUnit"
        )
    ]


def test_the_largest_mtu_of_a_host_fits_through_the_leaf() -> None:
    assert derive_sound_leaves("nvue", plan_case(mtu=MTU_BYTES))[0].mtu_bytes == MTU_BYTES


@pytest.mark.parametrize(
    ("case", "spec", "fields", "starts"),
    [
        pytest.param("flat", {}, {"uplinks": ()}, [], id="one leaf a rail, rails isolated"),
        pytest.param("node-subnet", {}, {"uplinks": ()}, ["no uplinks"], id="rails that reach each other"),
        pytest.param("flat", UNITS, {"uplinks": ()}, ["no uplinks"], id="a rail on several leaves"),
        pytest.param("flat", UNITS, {}, ["a rail spans"], id="a VLAN on several leaves"),
        pytest.param("shared-subnet", {}, {}, ["each rail's gateway"], id="gateways"),
        pytest.param("node-subnet", UNITS, {}, [], id="routed with uplinks"),
    ],
)
def test_what_somebody_should_know_is_said(
    case: str, spec: dict[str, Any], fields: dict[str, object], starts: list[str]
) -> None:
    warnings = list(iter_warnings(plan_case(case, **spec), build_wiring(NVUE, **fields)))
    assert len(warnings) == len(starts)
    assert all(text.startswith(start) for text, start in zip(warnings, starts, strict=True))
