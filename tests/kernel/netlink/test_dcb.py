"""The golden bytes of requests are what dcb(8) of iproute2 6.15 sent; it sends PFC and ETS only to drivers with DCB."""

from __future__ import annotations

import errno
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.kernel.netlink import codec, dcb
from trackbed.kernel.netlink.codec import MalformedError, Message
from trackbed.kernel.netlink.dcb import App, Dcb, EightInts, Ets, Pfc
from trackbed.kernel.netlink.links import VethEnd, build_create_veth
from trackbed.kernel.netlink.sockets import NETLINK_ROUTE, RequestError, Socket

little = pytest.mark.skipif(sys.byteorder != "little", reason="the golden bytes are little endian")

ETS = Ets(
    willing=False,
    capacity=8,
    credit_based_shaper=False,
    tx_bandwidth=(50, 0, 0, 50, 0, 0, 0, 0),
    rx_bandwidth=(50, 0, 0, 50, 0, 0, 0, 0),
    algorithms=(2, 2, 2, 2, 2, 2, 0, 0),
    classes=(0, 1, 2, 3, 4, 5, 6, 7),
)


@little
@pytest.mark.parametrize(
    ("message", "kind", "body"),
    [
        pytest.param(
            dcb.build_add_apps("lo", [dcb.build_dscp_app(26, 3)]),
            79,
            "00140000 07000100 6c6f0000 10000d80 0c000380 08000100 05031a00",
            id="dcb app add dev lo dscp-prio 26:3",
        ),
        pytest.param(
            dcb.build_delete_apps("lo", [dcb.build_dscp_app(26, 3)]),
            79,
            "001b0000 07000100 6c6f0000 10000d80 0c000380 08000100 05031a00",
            id="dcb app del dev lo dscp-prio 26:3",
        ),
        pytest.param(dcb.build_dcb_request("lo"), 78, "00150000 07000100 6c6f0000", id="dcb app show dev lo"),
    ],
)
def test_messages_are_those_of_the_dcb_program(message: Message, kind: int, body: str) -> None:
    assert (message.type, message.flags, message.body.hex()) == (kind, 0, body.replace(" ", ""))


@little
def test_pfc_lies_where_struct_ieee_pfc_has_it() -> None:
    """pfc_cap 0, pfc_en 1, mbc 2, delay 4, requests 8, indications 72, 136 bytes in all."""
    ones: EightInts = (1, 0, 0, 0, 0, 0, 0, 0)
    value = dcb.build_set_pfc("lo", Pfc(8, frozenset({3, 4}), macsec_bypass=True, delay=0x1234, requests=ones)).body[
        12:
    ]
    assert value.hex() == "90000d80" + "8c000200" + "08180100" + "34120000" + "01" + "00" * 127


@little
def test_ets_lies_where_struct_ieee_ets_has_it() -> None:
    value = dcb.build_set_ets("lo", ETS).body[12:]
    assert value.hex().startswith("44000d80" + "3f000100" + "000800" + "3200003200000000" * 2 + "0202020202020000")
    assert len(value) == 4 + 4 + 59 + 1


@little
def test_trust_order_is_a_list_of_bytes() -> None:
    message = dcb.build_set_trust("lo", [dcb.IEEE_8021QAZ_APP_SEL_DSCP, dcb.DCB_APP_SEL_PCP])
    assert message.body[12:].hex() == "18000d80" + "14000b80" + "05000100" + "05000000" + "05000200" + "ff000000"


def answer(*parts: bytes, dcbx: int | None = None) -> bytes:
    """Return a reply to DCB_CMD_IEEE_GET with these attributes in DCB_ATTR_IEEE."""
    dcbx_attribute = b"" if dcbx is None else codec.pack_u8(14, dcbx)
    return bytes([0, 21, 0, 0]) + codec.pack_string(1, "rail0") + codec.pack_nested(13, *parts) + dcbx_attribute


def inner(message: Message) -> bytes:
    """Return the content of DCB_ATTR_IEEE in a setting message."""
    return bytes(codec.parse_attributes(message.body, 4)[13])


bytes_ = st.integers(0, 255)
eights = st.tuples(*[bytes_] * 8)
counts = st.tuples(*[st.integers(0, 2**64 - 1)] * 8)
ets = st.builds(Ets, st.booleans(), bytes_, st.booleans(), eights, eights, eights, eights, eights, eights, eights)
pfcs = st.builds(
    Pfc,
    bytes_,
    st.frozensets(st.integers(0, 7)),
    st.booleans(),
    st.integers(0, 65535),
    counts,
    counts,
)
apps = st.lists(st.builds(App, st.sampled_from([1, 2, 3, 4, 5, 255]), st.integers(0, 65535), st.integers(0, 7)))


@given(ets, pfcs, apps, st.lists(st.sampled_from([1, 2, 3, 4, 5, 255])))
def test_what_is_set_is_what_is_read(shares: Ets, pause: Pfc, table: list[App], order: list[int]) -> None:
    messages = [
        dcb.build_set_ets("rail0", shares),
        dcb.build_set_pfc("rail0", pause),
        dcb.build_add_apps("rail0", table),
    ]
    messages.append(dcb.build_set_trust("rail0", order))
    parsed = dcb.parse_dcb(answer(*map(inner, messages), dcbx=9))
    assert parsed == Dcb(shares, pause, tuple(table), tuple(order), 9)


def test_driver_that_tells_nothing_has_nothing() -> None:
    assert dcb.parse_dcb(answer()) == Dcb(None, None, (), None, None)


def test_priorities_of_dscps_are_found_among_other_entries() -> None:
    table = [dcb.build_dscp_app(26, 3), dcb.build_dscp_app(26, 4), dcb.build_dscp_app(48, 6), App(1, 0, 2)]
    assert dcb.group_dscp_priorities(table) == {26: frozenset({3, 4}), 48: frozenset({6})}


@pytest.mark.parametrize(
    ("kind", "length"),
    [(1, 58), (1, 60), (2, 135), (2, 0)],
    ids=["ETS too short", "ETS too long", "PFC too short", "PFC empty"],
)
def test_struct_of_another_size_is_malformed(kind: int, length: int) -> None:
    with pytest.raises(MalformedError, match=f"of {length} bytes"):
        dcb.parse_dcb(answer(codec.pack_attribute(kind, bytes(length))))


@given(st.binary(max_size=200))
def test_hostile_bytes_are_malformed_and_nothing_else(data: bytes) -> None:
    for body in (data, answer(data), answer(codec.pack_nested(3, data)), answer(codec.pack_nested(11, data))):
        with suppress(MalformedError):
            assert dcb.parse_dcb(body).apps is not None
        with suppress(MalformedError):
            failure = dcb.parse_failure(body)
            assert failure is None or failure.errno > 0


def verdict_of(byte: int) -> bytes:
    return bytes([0, 20, 0, 0]) + codec.pack_u8(13, byte)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(verdict_of(0), None, id="done"),
        pytest.param(verdict_of(256 - errno.EOPNOTSUPP), errno.EOPNOTSUPP, id="the driver has no such thing"),
        pytest.param(verdict_of(-524 % 256), errno.EOPNOTSUPP, id="ENOTSUPP of the kernel, which no C library knows"),
        pytest.param(verdict_of(256 - errno.EEXIST), errno.EEXIST, id="the entry is there"),
        pytest.param(verdict_of(1), errno.EINVAL, id="no errno"),
    ],
)
def test_refusal_in_an_answer_is_told(body: bytes, expected: int | None) -> None:
    failure = dcb.parse_failure(body)
    assert (failure and failure.errno) == expected


@pytest.mark.parametrize("body", [bytes(4), b"", bytes(4) + codec.pack_attribute(13, b"ab")])
def test_answer_without_a_verdict_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedError):
        dcb.parse_failure(body)


@pytest.mark.parametrize(
    "value",
    [ETS._replace(tx_bandwidth=(256, 0, 0, 0, 0, 0, 0, 0)), ETS._replace(capacity=-1)],
    ids=["a share above a byte", "a capacity below 0"],
)
def test_ets_that_does_not_fit_is_a_mistake_of_the_caller(value: Ets) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        dcb.build_set_ets("lo", value)


def test_pfc_on_a_priority_that_is_none_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        dcb.build_set_pfc("lo", Pfc(8, frozenset({8})))


def test_interface_without_dcb_is_refused(sock: Socket) -> None:
    sock.send([build_create_veth(VethEnd("rail0"), VethEnd("leaf"))])
    with pytest.raises(RequestError) as get_refusal:
        dcb.get_dcb(sock, "rail0")
    with pytest.raises(RequestError) as set_refusal:
        dcb.apply_setting(sock, dcb.build_add_apps("rail0", [dcb.build_dscp_app(26, 3)]))
    assert (get_refusal.value.errno, set_refusal.value.errno) == (errno.EOPNOTSUPP, errno.EOPNOTSUPP)


def test_interface_that_is_not_there_is_refused(sock: Socket) -> None:
    with pytest.raises(RequestError) as caught:
        dcb.get_dcb(sock, "gone")
    assert caught.value.errno == errno.ENODEV


@pytest.mark.needs("namespaces")
def test_refusal_of_a_driver_is_raised_though_an_ack_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """No driver here refuses, so the answer is one as net/dcb/dcbnl.c builds it."""
    reply = codec.ReceivedMessage(79, 0, 1, memoryview(verdict_of(256 - errno.ENOENT)))
    monkeypatch.setattr(Socket, "request", lambda *_: [reply])
    with Socket(NETLINK_ROUTE) as talk, pytest.raises(RequestError) as caught:
        dcb.apply_setting(talk, dcb.build_delete_apps("rail0", [dcb.build_dscp_app(26, 3)]))
    assert caught.value.errno == errno.ENOENT
