from __future__ import annotations

import struct
import sys
from contextlib import suppress
from socket import AF_INET, AF_INET6

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.addresses import pack_address
from trackbed.kernel.netlink.codec import MalformedError, Message

little_endian = pytest.mark.skipif(sys.byteorder != "little", reason="the golden bytes are little endian")

KINDS = st.integers(0, 0x3FFF)


@little_endian
@pytest.mark.parametrize(
    ("packed", "golden"),
    [
        pytest.param(codec.pack_u8(1, 0xAB), "05000100 ab000000", id="u8 is padded, its length is not"),
        pytest.param(codec.pack_u32(3, 0xDEADBEEF), "08000300 efbeadde", id="u32"),
        pytest.param(codec.pack_be32(5, 0x0A000001), "08000500 0a000001", id="be32 in network order"),
        pytest.param(codec.pack_string(6, "eth0"), "09000600 65746830 00000000", id="string closed by a zero"),
        pytest.param(codec.pack_attribute(7, b""), "04000700", id="no bytes"),
        pytest.param(codec.pack_attribute(7, b"1234"), "08000700 31323334", id="four bytes take no padding"),
        pytest.param(codec.pack_attribute(1, pack_address(AF_INET, 0xAC100001)), "08000100 ac100001", id="IPv4"),
        pytest.param(codec.pack_attribute(1, pack_address(AF_INET6, 1)), "14000100" + "00" * 15 + "01", id="IPv6"),
        pytest.param(
            codec.pack_nested(18, codec.pack_string(1, "veth")),
            "10001280 09000100 7665746800000000",
            id="nested is marked",
        ),
    ],
)
def test_attribute_has_its_golden_bytes(packed: bytes, golden: str) -> None:
    assert packed == bytes.fromhex(golden)


@little_endian
def test_message_has_its_golden_bytes() -> None:
    packed_message = codec.pack_message(Message(18, 0, b"\x11\x22\x33"), 7, codec.NLM_F_DUMP)
    assert packed_message == bytes.fromhex("13000000 1200 0103 07000000 00000000 112233 00")


@given(st.lists(st.tuples(KINDS, st.binary(max_size=40))))
def test_attributes_come_back_in_order_and_unchanged(written: list[tuple[int, bytes]]) -> None:
    whole = b"".join(codec.pack_attribute(kind, payload) for kind, payload in written)
    assert len(whole) % 4 == 0
    assert [(kind, bytes(payload)) for kind, payload in codec.iter_attributes(whole)] == written
    assert {kind: bytes(payload) for kind, payload in codec.parse_attributes(whole).items()} == dict(written)


@given(KINDS, st.lists(st.tuples(KINDS, st.binary(max_size=9))))
def test_nesting_comes_back_level_by_level(outer: int, inner: list[tuple[int, bytes]]) -> None:
    whole = codec.pack_nested(outer, *(codec.pack_attribute(kind, payload) for kind, payload in inner))
    ((kind, payload),) = codec.iter_attributes(whole)
    assert kind == outer
    assert [(kind, bytes(payload)) for kind, payload in codec.iter_attributes(payload)] == inner


@given(st.lists(st.tuples(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.binary(max_size=40)), max_size=5))
def test_messages_come_back_in_order_and_unchanged(written: list[tuple[int, int, bytes]]) -> None:
    whole = b"".join(codec.pack_message(Message(*message), 40 + place) for place, message in enumerate(written))
    assert [(m.type, m.flags, m.sequence, bytes(m.body)) for m in codec.parse_messages(whole)] == [
        (kind, flags | codec.NLM_F_REQUEST, 40 + place, body) for place, (kind, flags, body) in enumerate(written)
    ]


@given(
    st.sampled_from([1, 2, 4, 8]).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, (1 << 8 * size) - 1)))
)
def test_numbers_come_back(case: tuple[int, int]) -> None:
    size, number = case
    packed = codec.pack_attribute(9, number.to_bytes(size, sys.byteorder))
    assert codec.as_int(codec.parse_attributes(packed)[9]) == number


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_text_comes_back(text: str) -> None:
    assert codec.as_text(codec.parse_attributes(codec.pack_string(9, text))[9]) == text


def test_absent_attributes_have_defaults() -> None:
    assert (codec.as_int(None), codec.as_int(None, 7), codec.as_text(None)) == (0, 7, "")


def test_text_ends_at_the_first_nul_and_bad_utf8_does_not_hurt() -> None:
    assert codec.as_text(b"rail0\0junk") == "rail0"
    assert codec.as_text(b"\xff\0") == "\N{REPLACEMENT CHARACTER}"


@given(st.binary(max_size=64))
def test_any_bytes_parse_or_are_malformed(junk: bytes) -> None:
    for parse in (codec.parse_messages, codec.iter_attributes):
        with suppress(MalformedError):
            for _ in parse(junk):
                pass


@given(st.binary(min_size=1, max_size=40), st.data())
def test_every_cut_through_an_attribute_is_noticed(payload: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, 4 + len(payload) - 1))
    with pytest.raises(MalformedError):
        codec.parse_attributes(codec.pack_attribute(1, payload)[:cut])


@given(st.binary(max_size=40), st.data())
def test_every_cut_through_a_message_is_noticed(body: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, 16 + len(body) - 1))
    with pytest.raises(MalformedError):
        list(codec.parse_messages(codec.pack_message(Message(16, 0, body), 1)[:cut]))


@pytest.mark.parametrize(
    ("datagram", "message"),
    [
        pytest.param(b"\x10\0\0", "3 bytes at 0, expected 16", id="half a header"),
        pytest.param(struct.pack("=IHHII", 15, 9, 0, 0, 0), "message of 15 bytes at 0 in a datagram of 16", id="short"),
        pytest.param(struct.pack("=IHHII", 0, 9, 0, 0, 0), "message of 0 bytes at 0 in a datagram of 16", id="zero"),
        pytest.param(struct.pack("=IHHII", 20, 9, 0, 0, 0), "message of 20 bytes at 0 in a datagram of 16", id="long"),
    ],
)
def test_truncated_message_says_what_is_missing(datagram: bytes, message: str) -> None:
    with pytest.raises(MalformedError, match=f"^{message}$"):
        list(codec.parse_messages(datagram))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        pytest.param(b"\x08\0\1", "3 bytes at 0, expected 4", id="half a header"),
        pytest.param(struct.pack("=HH", 3, 5), "attribute 5 of 3 bytes at 0 of 4", id="short"),
        pytest.param(struct.pack("=HH", 0, 5), "attribute 5 of 0 bytes at 0 of 4", id="zero"),
        pytest.param(struct.pack("=HH", 8, 5), "attribute 5 of 8 bytes at 0 of 4", id="long"),
    ],
)
def test_truncated_attribute_says_what_is_missing(attributes: bytes, message: str) -> None:
    with pytest.raises(MalformedError, match=f"^{message}$"):
        codec.parse_attributes(attributes)
