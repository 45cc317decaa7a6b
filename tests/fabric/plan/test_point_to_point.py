"""Scheme point-to-point with an IPv6 prefix of its own: a /31 and, for example, a /64 for each port."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fabric.plan.fabrics import fabric
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.model.ranges import format_address, parse_address
from trackbed.fabric.plan.compute import build_layouts, compute_plan
from trackbed.fabric.plan.explain import explain_address
from trackbed.fabric.plan.plan import AddressPlan
from trackbed.fabric.plan.routes import iter_routes

_SPECTRUM_X = {"scheme": "point-to-point", "layout": "spectrum-x-2tier", "ipv6": "fd02::/32", "ipv6RailPrefix": 40}


def _build(nodes: int, rails: int, **addressing: object) -> Fabric:
    return fabric(nodes=[{"hosts": f"n[0-{nodes - 1}]"}], rails=rails, addressing=addressing)


def _find(wanted: Fabric, host: str, rail: int) -> AddressPlan:
    node = compute_plan(wanted, {}).find_node(host)
    port = node.find_port(rail) if node else None
    assert port is not None
    assert port.v6 is not None
    return port.v6


@pytest.mark.parametrize(
    ("addressing", "host", "rail", "address", "leaf"),
    [
        (_SPECTRUM_X, "n37", 1, "fd02:0:100::10a/127", "fd02:0:100::10b"),
        (_SPECTRUM_X | {"ipv6NodePrefix": 64}, "n0", 0, "fd02::1/64", "fd02::2"),
        (_SPECTRUM_X | {"ipv6NodePrefix": 64}, "n37", 1, "fd02:0:100:105::1/64", "fd02:0:100:105::2"),
        (_SPECTRUM_X | {"ipv6NodePrefix": 64}, "n99", 3, "fd02:0:300:303::1/64", "fd02:0:300:303::2"),
        (
            {
                "scheme": "point-to-point",
                "ipv4": "10.0.0.0/13",
                "ipv6": "fd02::/32",
                "ipv6RailPrefix": 48,
                "ipv6NodePrefix": 64,
            },
            "n37",
            2,
            "fd02:0:2:25::1/64",
            "fd02:0:2:25::2",
        ),
        ({"scheme": "point-to-point", "ipv6": "fd02::/64", "ipv6NodePrefix": 126}, "n2", 0, "fd02::9/126", "fd02::a"),
    ],
    ids=["default-127", "first-host", "second-unit", "fourth-unit", "dense", "narrow"],
)
def test_a_port_has_the_address_of_its_slot(
    addressing: dict[str, object], host: str, rail: int, address: str, leaf: str
) -> None:
    planned = _find(_build(100, 8 if "layout" in addressing else 4, **addressing), host, rail)
    assert (str(planned), format_address(6, planned.gateway)) == (address, leaf)


@st.composite
def _wide(draw: st.DrawFn) -> Fabric:
    layout = draw(st.sampled_from(["dense", "spectrum-x-2tier"]))
    ipv4 = {"ipv4": "10.0.0.0/8"} if layout == "dense" and draw(st.booleans()) else {}
    addressing = {
        "scheme": "point-to-point",
        "layout": layout,
        "ipv6": f"fd02::/{draw(st.integers(16, 40))}",
        "ipv6NodePrefix": draw(st.integers(64, 127)),
    }
    return fabric(
        nodes=[{"hosts": f"n[0-{draw(st.integers(0, 60))}]"}],
        rails=draw(st.integers(1, 8)),
        nodesPerUnit=draw(st.sampled_from([1, 2, 32, 128])),
        addressing=addressing | ipv4,
    )


@given(_wide())
def test_host_and_leaf_are_alone_in_a_subnet_of_their_own(wanted: Fabric) -> None:
    plan = compute_plan(wanted, {})
    prefix = wanted.spec.addressing.ipv6_node_prefix  # type: ignore[union-attr] # the scheme is point-to-point
    subnets = set()
    for node in plan.nodes:
        for port in node.ports:
            assert port.v6 is not None
            network = ipaddress.IPv6Network(str(port.v6.subnet))
            host, leaf = ipaddress.IPv6Address(port.v6.address), ipaddress.IPv6Address(port.v6.gateway)
            assert (network.prefixlen, int(leaf) - int(host)) == (prefix, 1)
            assert {host, leaf} == set(network.hosts()) if prefix == 127 else host == network[1]
            assert network.subnet_of(ipaddress.IPv6Network(str(plan.common.rails[port.rail].v6)))
            subnets.add(network)
    assert len(subnets) == sum(len(node.ports) for node in plan.nodes)


@given(_wide(), st.integers(0, 10_000))
def test_addresses_grow_with_the_slot(wanted: Fabric, slot: int) -> None:
    for _, layout in build_layouts(wanted.spec, 6):
        assert layout is not None
        low = min(slot, layout.slots - 2)
        assert low < 0 or layout.compute_address(low).address < layout.compute_address(low + 1).address


@given(_wide())
def test_explain_finds_host_and_leaf(wanted: Fabric) -> None:
    plan = compute_plan(wanted, {})
    for node in plan.nodes[-2:]:
        for port in node.ports:
            assert port.v6 is not None
            roles = {
                (explanation.role, explanation.node)
                for address in (port.v6.address, port.v6.gateway)
                for explanation in [explain_address(wanted, plan, 6, address)]
            }
            assert roles == {("port", node.name), ("leaf", node.name)}


def test_explain_names_the_node_of_an_unassigned_address_of_its_subnet() -> None:
    wanted = _build(40, 2, **_SPECTRUM_X | {"ipv6NodePrefix": 64})
    explanation = explain_address(wanted, compute_plan(wanted, {}), *parse_address("fd02:0:100:105::7"))
    assert explanation.text == "fd02:0:100:105::7 lies in n37's fd02:0:100:105::/64 on rail 1; not assigned"


def test_routes_lead_to_rail_and_supernet_by_the_leaf() -> None:
    wanted = _build(40, 2, **_SPECTRUM_X | {"ipv6NodePrefix": 64})
    plan = compute_plan(wanted, {})
    routes = iter_routes(plan.common, 0, _find(wanted, "n37", 0), carries_supernet=True)
    shown = [
        (route.table, str(route.to), format_address(6, route.gateway) if route.gateway else "-") for route in routes
    ]
    leaf = "fd02:0:0:105::2"
    assert shown == [
        (1000, "fd02:0:0:105::/64", "-"),
        (1000, "::/0", leaf),
        (254, "fd02::/40", leaf),
        (254, "fd02::/32", leaf),
    ]
