from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_until
from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import MalformedError
from trackbed.kernel.netlink.links import (
    IPV4_DEVCONF,
    Link,
    VethEnd,
    _parse_link,
    build_add_altname,
    build_create_bridge,
    build_create_macvlan,
    build_create_veth,
    build_delete_altname,
    build_delete_group,
    build_delete_link,
    build_set_link,
    get_link,
    list_links,
    parse_mac,
)
from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.netlink.sockets import BatchError, RequestError, Socket

MAC, OTHER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"


@pytest.fixture
def inside(there: int) -> Iterator[Socket]:
    """A socket in `there`."""
    with Socket(netns=there) as opened:
        yield opened


def names(sock: Socket) -> list[str]:
    return [link.name for link in list_links(sock) if link.name != "lo"]


def settled(sock: Socket, name: str, operstate: str) -> Link:
    """The link in this state; the kernel gets there in its own time (linkwatch)."""
    wait_until(lambda: get_link(sock, name).operstate == operstate, f"{name} becomes {operstate}")
    return get_link(sock, name)


@pytest.mark.skipif(sys.byteorder != "little", reason="the golden bytes are little endian")
def test_message_that_sets_a_link_up_with_a_sysctl_has_its_golden_bytes() -> None:
    assert build_set_link(7, up=True, mtu=9000, ipv4_conf={"arp_ignore": 1}).body == bytes.fromhex(
        "00000000 07000000 01000000 01000000"  # ifinfomsg: index 7, flags IFF_UP, change IFF_UP
        "08000400 28230000"  # IFLA_MTU 9000
        "14001a80 10000280 0c000180 08001300 01000000"  # IFLA_AF_SPEC, AF_INET, IFLA_INET_CONF, 19 = arp_ignore
    )


def test_veth_is_born_with_each_end_in_its_own_namespace(sock: Socket, inside: Socket, there: int) -> None:
    sock.send(
        [build_create_veth(VethEnd("port", mtu=9000, mac=MAC, index=20), VethEnd("rail0", there, 4200, OTHER_MAC, 30))]
    )
    port, rail = get_link(sock, "port"), get_link(inside, "rail0")
    assert (port.index, port.kind, port.mtu, port.mac, port.is_up) == (20, "veth", 9000, MAC, False)
    assert (rail.index, rail.kind, rail.mtu, rail.mac, rail.is_up) == (30, "veth", 4200, OTHER_MAC, False)
    assert (port.parent, rail.parent) == (30, 20)


def test_peer_in_another_namespace_is_told_from_one_in_this(sock: Socket, there: int) -> None:
    sock.send(
        [build_create_veth(VethEnd("far"), VethEnd("x", there)), build_create_veth(VethEnd("near"), VethEnd("y"))]
    )
    assert get_link(sock, "far").link_netnsid is not None
    assert get_link(sock, "near").link_netnsid is None


def test_macvlan_is_born_in_the_pods_namespace(sock: Socket, inside: Socket, there: int) -> None:
    sock.send([build_create_veth(VethEnd("port", index=20), VethEnd("leaf"))])
    sock.send([build_create_macvlan("rail0", 20, netns_fd=there, index=40, group=77, mac=MAC, mtu=1400)])
    rail = get_link(inside, "rail0")
    assert (rail.index, rail.kind, rail.group, rail.mac, rail.mtu) == (40, "macvlan", 77, MAC, 1400)
    assert rail.parent == 20
    assert names(sock) == ["leaf", "port"] or names(sock) == ["port", "leaf"]


def test_link_joins_a_bridge_and_leaves_it(sock: Socket) -> None:
    sock.send(
        [build_create_bridge("switch", mtu=1400, mac=MAC), build_create_veth(VethEnd("a", index=20), VethEnd("b"))]
    )
    bridge = get_link(sock, "switch")
    assert (bridge.kind, bridge.mtu, bridge.mac) == ("bridge", 1400, MAC)
    sock.send([build_set_link(20, master=bridge.index)])
    assert get_link(sock, "a").master == bridge.index
    sock.send([build_set_link(20, master=0)])
    assert get_link(sock, "a").master == 0


def test_carrier_follows_both_ends_and_its_changes_are_counted(sock: Socket) -> None:
    sock.send([build_create_veth(VethEnd("a", index=20), VethEnd("b", index=21)), build_set_link(20, up=True)])
    waiting = settled(sock, "a", "lowerlayerdown")
    assert (waiting.is_up, waiting.is_running, waiting.carrier) == (True, False, False)
    sock.send([build_set_link(21, up=True)])
    joined = settled(sock, "a", "up")
    assert (joined.is_running, joined.carrier, joined.carrier_up_count) == (True, True, waiting.carrier_up_count + 1)
    sock.send([build_set_link(21, up=False)])
    parted = settled(sock, "a", "lowerlayerdown")
    assert (parted.is_running, parted.carrier, parted.carrier_down_count) == (
        False,
        False,
        joined.carrier_down_count + 1,
    )


def test_virtual_link_has_neither_permanent_mac_nor_parent_device(sock: Socket) -> None:
    sock.send([build_create_veth(VethEnd("a"), VethEnd("b"))])
    link = get_link(sock, "a")
    assert (link.permanent_mac, link.parent_device, link.parent_bus) == (None, None, None)


def test_link_changes_mac_group_and_name_at_once(sock: Socket) -> None:
    sock.send(
        [build_create_veth(VethEnd("a", index=20), VethEnd("b")), build_set_link(20, name="rail0", mac=MAC, group=5)]
    )
    rail = get_link(sock, "rail0")
    assert (rail.index, rail.mac, rail.group) == (20, MAC, 5)


def test_link_moves_into_a_pod_and_back(sock: Socket, inside: Socket, here: int, there: int) -> None:
    sock.send([build_create_veth(VethEnd("ens1", index=20, mac=MAC), VethEnd("leaf")), build_set_link(20, up=True)])
    sock.send([build_set_link(20, netns_fd=there, name="rail0", new_index=7)])
    moved = get_link(inside, "rail0")
    assert (moved.index, moved.mac, moved.is_up, names(sock)) == (7, MAC, False, ["leaf"])
    inside.send([build_set_link(7, netns_fd=here, name="ens1", new_index=20)])
    assert (get_link(sock, "ens1").index, names(inside)) == (20, [])


def test_every_ipv4_sysctl_has_the_right_number(sock: Socket, here: int) -> None:
    """Each gets a value of its own which it does not have, then /proc says which file changed."""
    sock.send([build_create_veth(VethEnd("a", index=20), VethEnd("b"))])
    conf = Path("/proc/sys/net/ipv4/conf/a")
    with enter_netns(here):
        present = {name for name in IPV4_DEVCONF if (conf / name).exists()}
        before = {name: int((conf / name).read_text()) for name in present}
        for name in sorted(present):
            sock.send([build_set_link(20, ipv4_conf={name: before[name] + 1})])
            after = {name: int((conf / name).read_text()) for name in present}
            assert {other for other in present if after[other] != before[other]} == {name}
            before = after
    assert {"arp_ignore", "arp_announce", "arp_filter", "rp_filter", "accept_local", "forwarding"} <= present


def test_several_ipv4_sysctls_are_set_with_the_link(sock: Socket, here: int) -> None:
    wanted = {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2}
    sock.send([build_create_veth(VethEnd("a", index=20), VethEnd("b")), build_set_link(20, up=True, ipv4_conf=wanted)])
    with enter_netns(here):
        assert {key: int(Path("/proc/sys/net/ipv4/conf/a", key).read_text()) for key in wanted} == wanted


def test_unknown_sysctl_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError, match="arp_ignroe"):
        build_set_link(7, ipv4_conf={"arp_ignroe": 1})


def test_deleting_a_link_takes_its_veth_peer_along(sock: Socket) -> None:
    sock.send(
        [build_create_veth(VethEnd("a", index=20), VethEnd("b")), build_create_bridge("switch"), build_delete_link(20)]
    )
    assert names(sock) == ["switch"]


def test_deleting_a_group_spares_the_others(sock: Socket, inside: Socket, there: int) -> None:
    sock.send([build_create_veth(VethEnd("port", index=20), VethEnd("leaf"))])
    group = {"a": 7, "b": 7, "c": 8}
    sock.send([build_create_macvlan(name, 20, netns_fd=there, group=number) for name, number in group.items()])
    inside.send([build_delete_group(7)])
    assert names(inside) == ["c"]


def test_group_of_everything_is_not_deleted(sock: Socket) -> None:
    with pytest.raises(BatchError) as caught:
        sock.send([build_create_bridge("switch"), build_delete_group(0)])
    assert [(f.index, f.errno) for f in caught.value.failures] == [(1, errno.EPERM)]
    assert names(sock) == ["switch"]


def test_altnames_come_and_go_and_are_unique(sock: Socket) -> None:
    long = "the-port-beside-gpu-0"
    sock.send([build_create_bridge("a"), build_create_bridge("b")])
    index, other = get_link(sock, "a").index, get_link(sock, "b").index
    sock.send([build_add_altname(index, long), build_add_altname(index, "short")])
    assert set(get_link(sock, "a").altnames) == {long, "short"}
    with pytest.raises(BatchError) as caught:
        sock.send([build_add_altname(other, long)])
    assert caught.value.failures[0].errno == errno.EEXIST
    sock.send([build_delete_altname(index, long)])
    assert get_link(sock, "a").altnames == ("short",)


def test_name_in_use_is_refused(sock: Socket) -> None:
    with pytest.raises(BatchError) as caught:
        sock.send([build_create_bridge("a"), build_create_bridge("a")])
    assert [(f.index, f.errno) for f in caught.value.failures] == [(1, errno.EEXIST)]


def test_name_of_16_bytes_is_refused_and_of_15_is_not(sock: Socket) -> None:
    sock.send([build_create_bridge("a" * 15)])
    with pytest.raises(BatchError):
        sock.send([build_create_bridge("b" * 16)])
    assert names(sock) == ["a" * 15]


def test_absent_link_is_refused(sock: Socket) -> None:
    with pytest.raises(RequestError) as caught:
        get_link(sock, "gone")
    assert caught.value.errno == errno.ENODEV


def test_hardware_link_shows_permanent_mac_and_pci_address() -> None:
    body = codec.pack_message(build_set_link(3, name="ens1"), 1)[16:]
    body += (
        codec.pack_attribute(54, parse_mac(MAC)) + codec.pack_string(56, "0000:18:00.0") + codec.pack_string(57, "pci")
    )
    link = _parse_link(memoryview(body))
    assert (link.permanent_mac, link.parent_device, link.parent_bus) == (MAC, "0000:18:00.0", "pci")


def test_infiniband_address_is_shown_whole() -> None:
    hardware = ":".join(["80", "00"] * 10)
    body = codec.pack_message(build_set_link(3, mac=hardware), 1)[16:]
    assert _parse_link(memoryview(body)).mac == hardware


def test_short_link_is_malformed() -> None:
    with pytest.raises(MalformedError, match=r"^15 bytes at 0, expected 16$"):
        _parse_link(memoryview(bytes(15)))


def test_link_is_a_value(sock: Socket) -> None:
    (loopback,) = list_links(sock)
    assert isinstance(loopback, Link)
    assert {loopback, get_link(sock, "lo")} == {loopback}
