"""The golden bytes are what ip(8) of iproute2 6.15 sent, and Linux 7.2's igb answered, about two VFs."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import MalformedError
from trackbed.kernel.netlink.links import get_link, parse_mac
from trackbed.kernel.netlink.sockets import RequestError, Socket
from trackbed.kernel.netlink.vfs import (
    ETH_P_8021AD,
    Vf,
    VfChange,
    VfListing,
    VfVlan,
    build_set_vf,
    build_vfs_request,
    get_vfs,
    parse_vfs,
)

little = pytest.mark.skipif(sys.byteorder != "little", reason="the golden bytes are little endian")

HEAD = "00000000 05000000 00000000 00000000"
MAC, GUID = "02:00:00:00:00:11", "0011:2233:4455:6677"

ANSWER = bytes.fromhex(
    "00000100 05000000 02100000 00000000"  # struct ifinfomsg
    "0a000300 7261696c 36000000 0a000100 02544200 06000000 08001500 02000000"  # name, address, count
    "54021600"
    "28010100 28000100 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000"
    "24000d00 ffffffff ffff0000 00000000 00000000 00000000 00000000 00000000 00000000"
    "10000200 00000000 00000000 00000000 10000600 00000000 00000000 00000000 0c000300 00000000 00000000"
    "0c000400 00000000 01000000 0c000500 00000000 00000000 0c000700 00000000 ffffffff"
    "0c000900 00000000 00000000 18000c00 14000100 00000000 00000000 00000000 81000000"
    "64000800 0c000000 00000000 00000000 0c000100 00000000 00000000 0c000200 00000000 00000000"
    "0c000300 00000000 00000000 0c000400 00000000 00000000 0c000500 00000000 00000000"
    "0c000700 00000000 00000000 0c000800 00000000 00000000"
    "28010100 28000100 01000000 02000000 00110000 00000000 00000000 00000000 00000000 00000000 00000000"
    "24000d00 ffffffff ffff0000 00000000 00000000 00000000 00000000 00000000 00000000"
    "10000200 01000000 64000000 03000000 10000600 01000000 00000000 00000000 0c000300 01000000 00000000"
    "0c000400 01000000 00000000 0c000500 01000000 00000000 0c000700 01000000 ffffffff"
    "0c000900 01000000 01000000 18000c00 14000100 01000000 64000000 03000000 81000000"
    "64000800 0c000000 00000000 00000000 0c000100 00000000 00000000 0c000200 00000000 00000000"
    "0c000300 00000000 00000000 0c000400 00000000 00000000 0c000500 00000000 00000000"
    "0c000700 00000000 00000000 0c000800 00000000 00000000"
)


@little
@pytest.mark.parametrize(
    ("change", "body"),
    [
        pytest.param(
            VfChange(mac=MAC),
            "30001600 2c000100 28000100 01000000 02000000 0011" + "0000" * 13,
            id="mac 02:00:00:00:00:11",
        ),
        pytest.param(
            VfChange(vlan=VfVlan(100, 3)), "18001600 14000100 10000200 01000000 64000000 03000000", id="vlan 100 qos 3"
        ),
        pytest.param(
            VfChange(vlan=VfVlan(100, 3, ETH_P_8021AD)),
            "20001600 1c000100 18000c00 14000100 01000000 64000000 03000000 88a80000",
            id="vlan 100 qos 3 proto 802.1ad",
        ),
        pytest.param(VfChange(spoof_check=False), "14001600 10000100 0c000400 01000000 00000000", id="spoofchk off"),
        pytest.param(VfChange(trust=True), "14001600 10000100 0c000900 01000000 01000000", id="trust on"),
        pytest.param(VfChange(link_state="enable"), "14001600 10000100 0c000500 01000000 01000000", id="state enable"),
        pytest.param(
            VfChange(rates=(10, 100)),
            "18001600 14000100 10000600 01000000 0a000000 64000000",
            id="min_tx_rate 10 max_tx_rate 100",
        ),
        pytest.param(
            VfChange(node_guid=GUID),
            "1c001600 18000100 14000a00 01000000 00000000 77665544 33221100",
            id="node_guid 00:11:22:33:44:55:66:77",
        ),
        pytest.param(
            VfChange(port_guid=GUID),
            "1c001600 18000100 14000b00 01000000 00000000 77665544 33221100",
            id="port_guid 00:11:22:33:44:55:66:77",
        ),
    ],
)
def test_messages_are_those_of_ip_link_set_vf_1(change: VfChange, body: str) -> None:
    message = build_set_vf(5, 1, change)
    assert (message.type, message.flags, message.body.hex()) == (16, 0, (HEAD + body).replace(" ", ""))


@little
def test_question_asks_for_vfs_without_their_counters() -> None:
    assert build_vfs_request("rail6").body.hex() == (
        "00000000" * 4 + "08001d00" + "09000000" + "0a000300" + "7261696c" + "36000000"
    )


@little
def test_answer_is_read_as_ip_shows_it() -> None:
    first = Vf(0, "00:00:00:00:00:00", spoof_check=True, trust=False)
    second = Vf(1, MAC, vlan=100, qos=3, spoof_check=False, trust=True)
    assert parse_vfs(ANSWER) == VfListing(2, (first, second))


def test_setting_that_the_driver_does_not_know_is_none() -> None:
    mac = codec.pack_attribute(1, (0).to_bytes(4, sys.byteorder) + bytes(32))
    unset = codec.pack_attribute(9, (0).to_bytes(4, sys.byteorder) + b"\xff" * 4)
    body = bytes(16) + codec.pack_attribute(22, codec.pack_attribute(1, mac + unset))
    (vf,) = parse_vfs(body).vfs
    assert (vf.trust, vf.spoof_check) == (None, None)


def test_vlan_and_rate_of_an_older_kernel_are_read() -> None:
    def numbers(*values: int) -> bytes:
        return b"".join(value.to_bytes(4, sys.byteorder) for value in values)

    parts = codec.pack_attribute(1, numbers(0) + bytes(32)) + codec.pack_attribute(2, numbers(0, 7, 1))
    parts += codec.pack_attribute(3, numbers(0, 500))
    (vf,) = parse_vfs(bytes(16) + codec.pack_attribute(22, codec.pack_attribute(1, parts))).vfs
    assert (vf.vlan, vf.qos, vf.min_tx_rate, vf.max_tx_rate) == (7, 1, 0, 500)


def test_interface_that_is_no_physical_function_has_no_vfs() -> None:
    assert parse_vfs(bytes(16) + codec.pack_string(3, "lo")) == VfListing(0, ())


macs = st.binary(min_size=6, max_size=6).map(lambda raw: raw.hex(":"))
changes = st.builds(
    VfChange,
    mac=macs,
    vlan=st.builds(VfVlan, st.integers(0, 4095), st.integers(0, 7), st.sampled_from([0x8100, 0x88A8])),
    spoof_check=st.booleans(),
    link_state=st.sampled_from(["auto", "enable", "disable"]),
    trust=st.booleans(),
    rates=st.sampled_from([(0, 0), (0, 100), (10, 100), (10, 0)]),
    node_guid=st.just(GUID),
    port_guid=st.just(GUID),
)


@given(changes, st.integers(0, 255))
def test_what_is_set_is_what_is_read(change: VfChange, index: int) -> None:
    """The kernel tells a VF in the attributes it is set by; only the address of the PF says how long a MAC is."""
    assert change.vlan is not None
    assert change.rates is not None
    body = build_set_vf(5, index, change).body
    (vf,) = parse_vfs(body[:16] + codec.pack_attribute(1, parse_mac(MAC)) + body[16:]).vfs
    assert (vf.index, vf.mac, vf.spoof_check, vf.trust) == (
        index,
        change.mac,
        change.spoof_check,
        change.trust,
    )
    assert (vf.vlan, vf.qos, vf.vlan_protocol) == (change.vlan.id, change.vlan.qos, change.vlan.protocol)
    assert (vf.min_tx_rate, vf.max_tx_rate) == change.rates
    assert (vf.link_state, vf.node_guid, vf.port_guid) == (change.link_state, GUID, GUID)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(VfChange(rates=(100, 10)), id="the least above the most"),
        pytest.param(VfChange(rates=(-1, 10)), id="a rate below 0"),
        pytest.param(VfChange(rates=(0, 2**32)), id="a rate of more than 32 bits"),
        pytest.param(VfChange(node_guid="0011"), id="a short GUID"),
        pytest.param(VfChange(mac="zz"), id="no MAC"),
        pytest.param(VfChange(mac="00" * 33), id="an address too long"),
    ],
)
def test_wrong_values_are_mistakes_of_the_caller(change: VfChange) -> None:
    with pytest.raises(ValueError, match=r"rates|GUID|hexadecimal|address"):
        build_set_vf(5, 0, change)


@pytest.mark.parametrize(("vlan", "qos"), [(4096, 0), (-1, 0), (1, 8)])
def test_vlan_out_of_range_is_refused(vlan: int, qos: int) -> None:
    with pytest.raises(ValueError, match="a VLAN is 0 to 4095"):
        VfVlan(vlan, qos)


@given(st.binary(max_size=200))
def test_hostile_bytes_are_malformed_and_nothing_else(data: bytes) -> None:
    for body in (data, bytes(16) + codec.pack_attribute(22, codec.pack_attribute(1, data))):
        with suppress(MalformedError):
            assert parse_vfs(body).count >= 0


@given(st.integers(16, len(ANSWER) - 1), st.integers(0, 255))
def test_answer_with_one_wrong_byte_is_read_or_malformed(at: int, byte: int) -> None:
    with suppress(MalformedError):
        assert parse_vfs(ANSWER[:at] + bytes([byte]) + ANSWER[at + 1 :]).count >= 0


def test_vlan_out_of_range_in_an_answer_is_malformed() -> None:
    mac = codec.pack_attribute(1, bytes(36))
    vlan = codec.pack_attribute(2, b"".join(value.to_bytes(4, sys.byteorder) for value in (0, 4096, 0)))
    with pytest.raises(MalformedError, match="VLAN 4096"):
        parse_vfs(bytes(16) + codec.pack_attribute(22, codec.pack_attribute(1, mac + vlan)))


def test_answer_cut_short_inside_the_list_is_malformed() -> None:
    for length in (20, 60, 100, 300, len(ANSWER) - 1):
        with pytest.raises(MalformedError):
            parse_vfs(ANSWER[:length])


def test_link_without_vfs_is_told_by_the_kernel(sock: Socket) -> None:
    assert get_vfs(sock, "lo") == VfListing(0, ())


def test_absent_link_is_refused(sock: Socket) -> None:
    with pytest.raises(RequestError) as caught:
        get_vfs(sock, "gone")
    assert caught.value.errno == errno.ENODEV


@pytest.mark.may_skip("needs a NIC with SR-IOV that nobody uses, named by TRACKBED_TEST_PF")
def test_vf_of_a_real_nic_is_set_and_put_back() -> None:
    name = os.environ.get("TRACKBED_TEST_PF", "")
    count = Path(f"/sys/class/net/{name}/device/sriov_numvfs")
    if not name or not count.exists():
        pytest.skip("TRACKBED_TEST_PF names no NIC with SR-IOV")
    before = count.read_text().strip()
    assert before == "0", f"{name} has VFs already"
    count.write_text("2")
    try:
        with Socket() as talk:
            index = get_link(talk, name).index
            was = get_vfs(talk, name)
            assert was.count == 2
            talk.send([build_set_vf(index, 1, VfChange(mac=MAC, trust=True, spoof_check=False))])
            now = get_vfs(talk, name)
            assert now.vfs == (was.vfs[0], was.vfs[1]._replace(mac=MAC, trust=True, spoof_check=False))
    finally:
        count.write_text(before)
