"""A pod with NET_ADMIN that tries, by its namespace, to change the host or another pod."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.node.rails.hostile import read_addressing, read_links, run_ip
from tests.node.rails.node import Agent, Node, inside
from trackbed.kernel.netlink import links
from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails import recovery
from trackbed.node.rails.attachment import PortIdentity
from trackbed.node.rails.client import read_status
from trackbed.node.rails.identity import IdentifiedLink
from trackbed.node.rails.recovery import Device, Recovery
from trackbed.node.rails.sandbox import OWN_NETNS

pytestmark = [pytest.mark.needs("root", "ip", "nsenter"), pytest.mark.usefixtures("agent")]

INDEX = 65536
"""Interface index of rail 0 in pods."""


@pytest.mark.parametrize("kind", ["veth", "bridge", "ifb"])
def test_a_pod_without_rails_plants_no_interface_on_the_host(node: Node, kind: str) -> None:
    before, pod = read_links(node.netns), node.pod()
    _plant(pod.path, "evil", INDEX + 1, kind)
    node.delete(pod)
    assert read_links(node.netns) == before
    assert "evil" in inside(pod.path).links


@pytest.mark.parametrize("kind", ["veth", "ifb"])
def test_an_interface_in_place_of_a_hidden_port_stays_in_the_pod(node: Node, kind: str) -> None:
    node_links, pod = read_links(node.netns), node.pod()
    run_ip(node.netns, "address", "add", "10.0.0.33/31", "dev", "rail0")
    hidden = node.namespace("hidden")
    node.add(pod, mode="move", rails=[0])
    run_ip(pod.path, "link", "set", "rail0", "netns", hidden)
    _plant(pod.path, "rail0", INDEX, kind)
    node.delete(pod)
    assert read_links(node.netns).keys() == node_links.keys() - {"rail0"}
    assert "rail0" in inside(pod.path).links


@pytest.mark.parametrize("mac", [None, "02:00:00:00:00:77"], ids=["any MAC", "the port's MAC"])
def test_a_false_port_at_the_index_does_not_keep_the_real_one_away(node: Node, mac: str | None) -> None:
    if mac:
        run_ip(node.netns, "link", "set", "rail0", "address", mac)
    before, pod = read_links(node.netns), node.pod()
    hidden = node.namespace("hidden")
    node.add(pod, mode="move", rails=[0])
    run_ip(pod.path, "link", "set", "rail0", "netns", hidden)
    _plant(pod.path, "rail0", INDEX, "veth")
    if mac:
        run_ip(pod.path, "link", "set", "rail0", "address", mac)
    run_ip(hidden, "link", "set", "rail0", "name", "real", "netns", pod.path)
    node.delete(pod)
    assert read_links(node.netns) == before


def test_a_port_under_another_index_and_name_comes_home(node: Node) -> None:
    before, pod = read_links(node.netns), node.pod()
    hidden = node.namespace("hidden")
    node.add(pod, mode="move", rails=[0, 1])
    for name, index in (("rail0", 77), ("rail1", INDEX)):
        run_ip(pod.path, "link", "set", name, "netns", hidden)
        move_with_index(hidden, pod.path, name, f"x{index}", index)
    node.delete(pod)
    assert read_links(node.netns) == before


def test_a_port_comes_home_as_it_was_whatever_the_pod_changed(node: Node) -> None:
    run_ip(node.netns, "link", "set", "rail0", "alias", "cable 7", "txqueuelen", 500)
    run_ip(node.netns, "link", "property", "add", "dev", "rail0", "altname", "slot3")
    before, addressing, pod = read_links(node.netns), read_addressing(node.netns), node.pod()
    node.add(pod, mode="move", rails=[0])
    run_ip(pod.path, "link", "set", "rail0", "down")
    run_ip(pod.path, "link", "set", "rail0", "name", "gone", "address", "02:00:00:00:00:99", "mtu", 1400)
    run_ip(pod.path, "link", "set", "gone", "promisc", "on", "allmulticast", "on", "arp", "off", "multicast", "off")
    run_ip(pod.path, "link", "set", "gone", "alias", "evil", "group", 7, "txqueuelen", 1)
    run_ip(pod.path, "link", "property", "del", "dev", "gone", "altname", "slot3")
    run_ip(pod.path, "link", "property", "add", "dev", "gone", "altname", "eth0", "altname", "lo1")
    run_ip(pod.path, "link", "add", "br0", "type", "bridge")
    run_ip(pod.path, "link", "set", "gone", "master", "br0")
    node.delete(pod)
    assert read_links(node.netns) == before
    assert read_addressing(node.netns) == addressing


@pytest.mark.parametrize("name", ["rail1", "far"])
def test_an_alternative_name_that_the_host_uses_does_not_keep_a_port_away(node: Node, name: str) -> None:
    if name == "far":
        run_ip(node.netns, "link", "add", "far", "type", "bridge")
    before, pod = read_links(node.netns), node.pod()
    node.add(pod, mode="move", rails=[0])
    run_ip(pod.path, "link", "property", "add", "dev", "rail0", "altname", name)
    node.delete(pod)
    assert read_links(node.netns) == before


@pytest.mark.parametrize("by", ["name", "altname"])
def test_a_pod_that_takes_the_name_of_anothers_port_does_not_keep_that_one_away(node: Node, by: str) -> None:
    before, thief, honest = read_links(node.netns), node.pod(), node.pod()
    hidden = node.namespace("hidden")
    node.add(thief, mode="move", rails=[0])
    node.add(honest, mode="move", rails=[1])
    run_ip(thief.path, "link", "set", "rail0", "netns", hidden)
    if by == "altname":
        run_ip(hidden, "link", "property", "add", "dev", "rail0", "altname", "rail1")
    run_ip(hidden, "link", "set", "rail0", "name", "rail1" if by == "name" else "dev7", "netns", node.netns)
    node.delete(honest)
    node.delete(thief)
    assert read_links(node.netns) == before


@pytest.mark.parametrize("ended", [False, True], ids=["in a pod", "hidden after its pod's end"])
def test_no_pod_gets_a_macvlan_on_a_device_that_has_the_name_of_another_port(node: Node, ended: bool) -> None:
    thief, owner, third = node.pod(), node.pod(), node.pod()
    hidden = node.namespace("hidden")
    node.add(thief, mode="move", rails=[0])
    node.add(owner, mode="move", rails=[1])
    if ended:
        run_ip(owner.path, "link", "set", "rail1", "netns", hidden)
        node.delete(owner)
    run_ip(thief.path, "link", "set", "rail0", "netns", hidden)
    run_ip(hidden, "link", "set", "rail0", "name", "rail1x", "netns", node.netns)
    run_ip(node.netns, "link", "set", "rail1x", "name", "rail1")
    done = node.call("ADD", third, mode="macvlan", rails=[1])
    expected = "has not come back from a pod that has ended" if ended else "the port is in pod"
    assert expected in done.json["msg"]
    assert inside(third.path).rails == []


def test_two_ports_that_come_home_under_each_others_names_get_their_own(node: Node) -> None:
    before, pod = read_links(node.netns), node.pod()
    hidden = node.namespace("hidden")
    node.add(pod, mode="move", rails=[0, 1])
    for name in ("rail0", "rail1"):
        run_ip(pod.path, "link", "set", name, "netns", hidden)
    run_ip(hidden, "link", "set", "rail0", "name", "rail1", "netns", node.netns)
    run_ip(hidden, "link", "set", "rail1", "name", "rail0", "netns", node.netns)
    node.delete(pod)
    assert read_links(node.netns) == before


def test_a_port_that_was_hidden_comes_home_as_it_was_after_a_restart_of_the_agent(node: Node, agent: Agent) -> None:
    run_ip(node.netns, "address", "add", "192.0.2.1/24", "dev", "rail0")
    before, addressing, pod = read_links(node.netns), read_addressing(node.netns), node.pod()
    hidden = node.namespace("hidden")
    node.add(pod, mode="move", rails=[0])
    run_ip(pod.path, "link", "set", "rail0", "netns", hidden)
    node.delete(pod)
    assert read_status(node.socket)["attachments"] == []
    agent.kill()
    run_ip(hidden, "link", "set", "rail0", "name", "dev9", "mtu", 1400, "netns", node.netns)
    node.start()
    assert read_links(node.netns) == before
    assert read_addressing(node.netns) == addressing


def test_a_port_whose_name_is_taken_when_it_comes_home_late_holds_up_no_other_pod(node: Node) -> None:
    pod, other, hidden = node.pod(), node.pod(), node.namespace("hidden")
    node.add(pod, mode="move", rails=[0])
    run_ip(pod.path, "link", "set", "rail0", "netns", hidden)
    node.delete(pod)
    run_ip(node.netns, "link", "add", "rail0", "type", "bridge")
    run_ip(hidden, "link", "set", "rail0", "name", "dev9", "netns", node.netns)
    node.add(other, mode="move", rails=[1])
    assert inside(other.path).rails == ["rail1"]
    node.delete(other)


def test_without_record_a_delete_brings_the_port_home_and_nothing_else(node: Node, agent: Agent) -> None:
    before, pod = read_links(node.netns), node.pod()
    hidden = node.namespace("hidden")
    node.add(pod, mode="move", rails=[0, 1])
    run_ip(pod.path, "link", "set", "rail0", "netns", hidden)
    _plant(pod.path, "rail0", INDEX, "veth")
    agent.kill()
    (node.state / "journal").unlink()
    node.start()
    node.delete(pod)
    assert read_links(node.netns).keys() == before.keys() - {"rail0"}


@pytest.mark.parametrize("mode", ["macvlan", "move"])
def test_a_pod_cannot_make_its_delete_fail_by_the_group_of_its_interfaces(node: Node, mode: str) -> None:
    before, pod = read_links(node.netns), node.pod()
    node.add(pod, mode=mode, rails=[0])
    run_ip(pod.path, "link", "set", "lo", "group", 0x54420000)
    run_ip(pod.path, "link", "add", "keep0", "type", "bridge")
    run_ip(pod.path, "link", "set", "rail0", "group", 5)
    node.delete(pod)
    assert inside(pod.path).links.keys() == {"lo", "keep0"}
    assert read_links(node.netns) == before


def test_a_pod_cannot_make_its_delete_fail_by_its_interfaces_without_record(node: Node, agent: Agent) -> None:
    pod = node.pod()
    node.add(pod, rails=[0])
    run_ip(pod.path, "link", "set", "lo", "group", 0x54420000)
    agent.kill()
    (node.state / "journal").unlink()
    node.start()
    node.delete(pod)
    assert inside(pod.path).links.keys() == {"lo"}


def test_a_pod_that_changes_its_links_all_the_time_does_not_hold_up_its_delete(node: Node) -> None:
    pod = node.pod()
    node.add(pod, rails=[0])
    run_ip(pod.path, "link", "delete", "rail0")
    stop = threading.Event()

    def flap() -> None:
        with Socket(netns=pod.path) as sock:
            up = False
            while not stop.is_set():
                up = not up
                sock.send([links.build_set_link(1, up=up)])

    threads = [threading.Thread(target=flap) for _ in range(2)]
    for thread in threads:
        thread.start()
    started = time.monotonic()
    try:
        node.delete(pod)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert time.monotonic() - started < 10


def test_an_interface_that_is_exchanged_for_a_port_at_the_last_moment_does_not_stay_on_the_host(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, pod = read_links(node.netns), node.pod()
    _plant(pod.path, "evil", INDEX, "veth")

    rail0 = Device(0, PortIdentity(kind="veth", peer=2, peer_netns=0), "rail0")

    def list_before_exchange(_: Socket, netns_fd: int, __: object) -> list[IdentifiedLink]:
        with Socket(netns=netns_fd) as sock:
            return [IdentifiedLink(links.get_link(sock, "evil"), rail0.identity)]

    monkeypatch.setattr(recovery, "choose_from_pod_links", list_before_exchange)
    with enter_netns(node.netns), Path(OWN_NETNS).open() as host, pod.path.open() as pod_netns:
        Recovery(host.fileno(), tuple).return_devices(pod_netns.fileno(), [rail0])
    assert read_links(node.netns) == before


def move_with_index(origin: Path, target: Path, name: str, new_name: str, index: int) -> None:
    with Socket(netns=origin) as sock, target.open() as namespace:
        present = links.get_link(sock, name).index
        sock.send([links.build_set_link(present, name=new_name, netns_fd=namespace.fileno(), new_index=index)])


def _plant(netns: Path, name: str, index: int, kind: str) -> None:
    peer = ("peer", "name", f"{name}p") if kind == "veth" else ()
    run_ip(netns, "link", "add", name, "index", index, "type", kind, *peer)
