"""What of each rail is offered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.node.rails.node import FABRIC, Node, planned
from tests.node.rails.sysfs import Sysfs
from trackbed.kernel.netlink.links import list_links
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails import devices
from trackbed.node.rails.attachment import PORT_ITSELF
from trackbed.node.rails.kubelet.messages import Device

VFS = FABRIC.replace("  rails: 8\n", "  rails: 8\n  vfs: {count: 3}\n")
MOVE = FABRIC.replace("  rails: 8\n", "  rails: 8\n  pods: {mode: move}\n")


@pytest.mark.needs("root")
def test_macvlan_has_a_device_for_each_address_and_carrier_makes_it_healthy(node: Node) -> None:
    with Socket(netns=node.netns) as sock:
        links = {link.name: link for link in list_links(sock)}
    offer = devices.build_offer(node.plan, links, (), {"rail2": 1})
    count = min(block.pods_count for block in node.plan.ports[0].addresses)
    assert offer[0] == tuple(Device(f"rail0-{number}", healthy=True) for number in range(count))
    assert {device.numa_node for device in offer[2]} == {1}
    del links["rail3"]
    assert not any(device.healthy for device in devices.build_offer(node.plan, links, (), {})[3])


def test_a_port_in_a_pod_is_no_lost_port() -> None:
    plan = planned(MOVE)
    away = {(1, PORT_ITSELF)}
    assert devices.build_offer(plan, {}, away, {})[1] == (Device("rail1", healthy=True),)
    assert devices.build_offer(plan, {}, away, {})[0] == (Device("rail0", healthy=False),)


@pytest.mark.needs("root")
def test_a_vf_is_healthy_while_it_is_usable_or_in_a_pod(node: Node, tmp_path: Path) -> None:
    plan = planned(VFS)
    with Socket(netns=node.netns) as sock:
        links = {link.name: link for link in list_links(sock)}
    sysfs = Sysfs(tmp_path)
    sysfs.vf("rail0", 0, interface="rail0v0")
    sysfs.vf("rail0", 1, interface=None)
    present = {(0, 2), *devices.list_usable_vfs(plan, tmp_path)}
    healthy = devices.build_offer(plan, links, present, {})[0]
    assert [(device.id, device.healthy) for device in healthy] == [
        ("rail0-0", True),
        ("rail0-1", False),
        ("rail0-2", True),
    ]
    del links["rail0"]
    assert not any(device.healthy for device in devices.build_offer(plan, links, present, {})[0])


def test_a_vf_without_rdma_is_none_where_its_port_has_rdma_of_hardware(tmp_path: Path) -> None:
    sysfs = Sysfs(tmp_path)
    sysfs.port("rail0", rdma="mlx5_0")
    sysfs.vf("rail0", 0, interface="rail0v0", rdma="mlx5_8")
    sysfs.vf("rail0", 1, interface="rail0v1")
    assert devices.list_usable_vfs(planned(VFS), tmp_path) == [(0, 0)]


def test_no_more_vfs_are_offered_than_have_addresses() -> None:
    few = VFS.replace("ipv4NodePrefix: 27", "ipv4NodePrefix: 27, podAddresses: 2")
    assert [device.id for device in devices.build_offer(planned(few), {}, (), {})[3]] == ["rail3-0", "rail3-1"]


def test_more_devices_than_a_kubelet_has_pods_are_not_offered() -> None:
    plan = planned(FABRIC.replace("ipv4NodePrefix: 27", "ipv4NodePrefix: 20"))
    assert len(devices.build_offer(plan, {}, (), {})[0]) == devices.MAX_DEVICES
