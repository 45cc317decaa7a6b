"""Addresses of a node, and capacity of the ranges."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from tests.fabric.plan.wanted import Wanted, wanted
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.compute import compute_plan

SIZES = {
    "shared": ({"scheme": "shared-subnet", "ipv4": "10.0.0.0/23"}, 14),
    "shared with gateway first": ({"scheme": "shared-subnet", "ipv4": "10.0.0.0/23", "gateway": "first"}, 14),
    "shared without pods": ({"scheme": "shared-subnet", "ipv4": "10.0.0.0/23", "podAddresses": "0"}, 254),
    "shared without pods, gateway": (
        {"scheme": "shared-subnet", "ipv4": "10.0.0.0/23", "podAddresses": "0", "gateway": "last"},
        253,
    ),
    "shared in odd blocks": ({"scheme": "shared-subnet", "ipv4": "10.0.0.0/23", "podAddresses": "9"}, 24),
    "shared in IPv6": ({"scheme": "shared-subnet", "ipv6": "fd00::/119", "ipv6RailPrefix": "120"}, 15),
    "node subnets": ({"scheme": "node-subnet", "ipv4": "10.0.0.0/23"}, 8),
    "smallest node subnets": ({"scheme": "node-subnet", "ipv4": "10.0.0.0/23", "ipv4NodePrefix": "29"}, 32),
    "dense /31s": ({"scheme": "point-to-point", "ipv4": "10.0.0.0/23"}, 128),
    "dense /127s": ({"scheme": "point-to-point", "ipv6": "fd00::/119"}, 128),
    "dual stack, the tighter counts": ({"scheme": "point-to-point", "ipv4": "10.0.0.0/8", "ipv6": "fd00::/119"}, 128),
}


@pytest.mark.parametrize(("addressing", "room"), SIZES.values(), ids=SIZES.keys())
def test_as_many_nodes_fit_as_the_message_says_and_not_one_more(addressing: dict[str, str], room: int) -> None:
    assert len(compute_plan(Wanted(addressing, nodes=room).fabric(), {}).nodes) == room
    with pytest.raises(SpecError) as caught:
        compute_plan(Wanted(addressing, nodes=room + 1).fabric(), {})
    assert all(f"has room for {room} nodes, {room + 1} are wanted" in p.message for p in caught.value.problems)


def too_small(want: Wanted) -> list[str]:
    """Return the messages about ranges that are too small."""
    try:
        compute_plan(want.fabric(), {})
    except SpecError as error:
        return [problem.message for problem in error.problems if problem.code == "range-too-small"]
    return []


@given(wanted())
def test_the_room_of_a_message_is_exact(want: Wanted) -> None:
    rooms = [int(message.partition("has room for ")[2].partition(" ")[0]) for message in too_small(want)]
    assume(rooms and min(rooms) > 0)
    assert len(compute_plan(want._replace(nodes=min(rooms)).fabric(), {}).nodes) == min(rooms)
    with pytest.raises(SpecError):
        compute_plan(want._replace(nodes=min(rooms) + 1).fabric(), {})


def test_a_spectrum_x_fabric_has_room_for_256_units() -> None:
    want = Wanted({"scheme": "point-to-point", "layout": "spectrum-x-2tier"}, nodes=256 * 4, nodes_per_unit=4)
    last = compute_plan(want.fabric(), {}).nodes[-1]
    assert [str(port.v4) for port in last.ports] == ["172.16.255.6/31", "172.18.255.6/31"]
    with pytest.raises(SpecError, match="has room for 1024 nodes, 1025 are wanted"):
        compute_plan(want._replace(nodes=1025).fabric(), {})


EXAMPLES = {
    "shared": (
        {"scheme": "shared-subnet", "ipv4": "10.0.0.0/15", "ipv6": "fd00:10::/48", "gateway": "last"},
        ("10.1.0.32/16", "10.1.255.254", "10.1.0.33", 15, "fd00:10:0:1::20/64"),
    ),
    "node subnets": (
        {"scheme": "node-subnet", "ipv4": "10.0.0.0/15", "ipv6": "fd00:10::/48"},
        ("10.1.0.34/27", "10.1.0.33", "10.1.0.35", 28, "fd00:10:0:8001::2/64"),
    ),
    "point-to-point": (
        {"scheme": "point-to-point", "ipv4": "10.0.0.0/15", "ipv6": "fd00:10::/48"},
        ("10.1.0.2/31", "10.1.0.3", "10.1.0.2", 1, "fd00:10:0:8000::2/127"),
    ),
    "spectrum-x": (
        {"scheme": "point-to-point", "layout": "spectrum-x-2tier"},
        ("172.18.0.2/31", "172.18.0.3", "172.18.0.2", 1, None),
    ),
}


@pytest.mark.parametrize(("addressing", "expected"), EXAMPLES.values(), ids=EXAMPLES.keys())
def test_the_second_node_has_these_addresses_on_the_second_rail(
    addressing: dict[str, str], expected: tuple[str, str, str, int, str | None]
) -> None:
    port = compute_plan(Wanted(addressing).fabric(), {}).nodes[1].ports[1]
    assert port.v4 is not None
    gateway, pods = (str(port.v4.with_address(a)).partition("/")[0] for a in (port.v4.gateway, port.v4.pods_first))
    shown6 = str(port.v6) if port.v6 else None
    assert (str(port.v4), gateway, pods, port.v4.pods_count, shown6) == expected


def test_no_addresses_are_planned_where_none_are_wanted() -> None:
    [node] = compute_plan(Wanted({"scheme": "none"}, nodes=1).fabric(), {}).nodes
    assert [(port.v4, port.v6) for port in node.ports] == [(None, None)] * 2
