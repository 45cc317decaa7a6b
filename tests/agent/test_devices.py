"""What of each rail is offered."""

from __future__ import annotations

import pytest

from tests.agent.node import FABRIC, Node, planned
from trackbed.agent import devices
from trackbed.agent.kubelet.messages import Device
from trackbed.netlink.links import list_links
from trackbed.netlink.sockets import Socket

MOVE = FABRIC.replace("  rails: 8\n", "  rails: 8\n  pods: {mode: move}\n")


@pytest.mark.needs("root")
def test_macvlan_has_a_device_for_each_address_and_carrier_makes_it_healthy(node: Node) -> None:
    with Socket(netns=node.netns) as sock:
        links = {link.name: link for link in list_links(sock)}
    offer = devices.offer(node.plan, links, (), {"rail2": 1})
    count = min(own.pods_count for own in node.plan.ports[0].addressed)
    assert offer[0] == tuple(Device(f"rail0-{number}", healthy=True) for number in range(count))
    assert {one.numa for one in offer[2]} == {1}
    del links["rail3"]
    assert not any(one.healthy for one in devices.offer(node.plan, links, (), {})[3])


def test_a_port_in_a_pod_is_no_lost_port() -> None:
    plan = planned(MOVE)
    assert devices.offer(plan, {}, {"rail1"}, {})[1] == (Device("rail1", healthy=True),)
    assert devices.offer(plan, {}, {"rail1"}, {})[0] == (Device("rail0", healthy=False),)


def test_more_devices_than_a_kubelet_has_pods_are_not_offered() -> None:
    plan = planned(FABRIC.replace("ipv4NodePrefix: 27", "ipv4NodePrefix: 20"))
    assert len(devices.offer(plan, {}, (), {})[0]) == devices.MOST
