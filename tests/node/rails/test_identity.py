"""Which interface is a port: the kernel's own word against what a pod can imitate."""

from __future__ import annotations

import tracemalloc

import pytest

from tests.doctor.sound import build_link
from trackbed.kernel.netlink import links
from trackbed.kernel.netlink.links import Link
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails.attachment import HostPort, PodPort
from trackbed.node.rails.identity import (
    IdentifiedLink,
    choose_from_pod_links,
    find_link,
    get_identity,
    identify,
    is_vouched,
    to_vf_identity,
)

HOST, POD, FABRIC = 0, 1, 2
"""Ids of network namespaces."""
MAC = "b8:ce:f6:00:00:01"
NIC = build_link(7, "rail0", MAC)._replace(kind="", parent_device="0000:3b:00.0", permanent_mac=MAC)
CABLE = build_link(7, "rail0", MAC)._replace(parent=4, link_netnsid=FABRIC)


def _find(port: Link, candidate: Link) -> Link | None:
    return find_link([IdentifiedLink(candidate, identify(candidate, POD))], identify(port, HOST))


@pytest.mark.parametrize("port", [NIC, CABLE])
def test_a_port_is_known_whatever_the_pod_has_made_of_it(port: Link) -> None:
    changed = port._replace(
        index=77, name="eth9", mac="02:00:00:00:00:01", mtu=1280, group=5, altnames=("x",), alias="evil", master=3
    )
    assert _find(port, changed) == changed


@pytest.mark.parametrize(
    "imitation",
    [
        {"kind": "veth", "parent_device": None, "permanent_mac": None, "parent": 4, "link_netnsid": POD},
        {"kind": "ifb", "parent_device": None, "permanent_mac": None},
        {"kind": "macvlan", "parent_device": None, "permanent_mac": None, "parent": 7},
        {"kind": "ipoib", "parent": 7},
        {"parent_device": "0000:3b:00.2"},
        {"permanent_mac": "b8:ce:f6:00:00:02"},
        {"port_name": "pf0vf1"},
    ],
    ids=["veth", "ifb", "macvlan", "ipoib child", "a VF", "second port of the function", "representor"],
)
def test_no_other_interface_with_its_name_index_and_mac_is_the_port(imitation: dict[str, object]) -> None:
    assert _find(NIC, NIC._replace(**imitation)) is None  # type: ignore[arg-type] # fields of different types


@pytest.mark.parametrize("peer", [{"parent": 5}, {"link_netnsid": POD}, {"link_netnsid": None}, {"kind": "vlan"}])
def test_a_veth_is_the_port_only_with_its_own_peer(peer: dict[str, object]) -> None:
    assert _find(CABLE, CABLE._replace(**peer)) is None  # type: ignore[arg-type] # fields of different types


def test_a_vf_is_known_after_its_port_gave_it_another_mac() -> None:
    recorded = to_vf_identity(identify(NIC, HOST))
    other = NIC._replace(permanent_mac="02:00:00:00:00:09")
    assert find_link([IdentifiedLink(other, identify(other, POD))], recorded) == other


def test_only_what_no_pod_can_create_is_vouched_for() -> None:
    assert [is_vouched(identify(link, HOST)) for link in (NIC, CABLE)] == [True, True]
    assert not is_vouched(identify(build_link(7, "bond0", MAC)._replace(kind="bond"), HOST))


def test_a_record_of_an_earlier_version_is_of_hardware_with_its_mac() -> None:
    port = PodPort(0, "rail0", MAC, 9000, host=HostPort("rail0", 7, 9000, up=True, conf={}))
    assert port.host is not None
    other = NIC._replace(permanent_mac="b8:ce:f6:00:00:02")
    listing = [IdentifiedLink(link, identify(link, POD)) for link in (CABLE, other, NIC)]
    assert find_link(listing, get_identity(port, port.host)) == NIC


@pytest.mark.needs("root")
def test_the_interfaces_that_a_pod_makes_take_little_memory(pod_netns: int) -> None:
    with Socket(netns=pod_netns) as sock:
        sock.send([links.build_create_bridge(f"br{number}") for number in range(1000)])
        sock.send([links.build_add_altname(2, f"{number:0>120}") for number in range(300)])  # more than 32 KiB
    with Socket() as host:
        tracemalloc.start()
        chosen = choose_from_pod_links(host, pod_netns, lambda pair: pair.link.name if pair.link.index == 2 else None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert chosen == ["br0"]
    assert peak < 600_000  # 2.7 MB where all are held
