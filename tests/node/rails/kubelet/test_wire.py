"""Protocol buffers as bytes: against examples of the format's own documentation, and there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.node.rails.kubelet import wire
from trackbed.node.rails.kubelet.wire import WireError


@pytest.mark.parametrize(
    ("message", "raw"),
    [
        (wire.encode_message((1, 150)), "08 96 01"),  # protobuf.dev/programming-guides/encoding, "A Simple Message"
        (wire.encode_message((2, "testing")), "12 07 74 65 73 74 69 6e 67"),
        (wire.encode_message((3, wire.encode_message((1, 150)))), "1a 03 08 96 01"),
        (wire.encode_message(*wire.expand_repeated_field(6, ["a", "b"])), "32 01 61 32 01 62"),
        (wire.encode_message((1, -2)), "08 fe ff ff ff ff ff ff ff ff 01"),
        (wire.encode_message((1, ""), (2, 0)), ""),
        (wire.encode_message((1, b"")), "0a 00"),
        (wire.encode_message((16, 1)), "80 01 01"),
    ],
)
def test_the_bytes_are_those_of_the_format(message: bytes, raw: str) -> None:
    assert message == bytes.fromhex(raw)


@given(st.lists(st.tuples(st.integers(1, 1 << 20), st.one_of(st.binary(), st.integers(1, (1 << 64) - 1)))))
def test_what_was_written_is_read(listed: list[tuple[int, bytes | int]]) -> None:
    wanted: dict[int, list[bytes | int]] = {}
    for number, value in listed:
        if number <= 31:
            wanted.setdefault(number, []).append(value)
    assert wire.parse_fields(wire.encode_message(*listed)) == wanted


def test_kinds_of_fields_that_nothing_here_uses_are_passed_by() -> None:
    fixed = bytes.fromhex("09 0000000000000000  15 00000000  1a 01 78")
    assert wire.get_last_string(wire.parse_fields(fixed), 3) == "x"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("08", "a number has no end"),
        ("08 ffffffffffffffffffff 01", "a number has no end"),
        ("0a 05 61", "a field is longer than its message"),
        ("09 00", "a field is longer than its message"),
        ("0b", "there is no wire type 3"),
    ],
)
def test_what_is_no_message_is_told(raw: str, message: str) -> None:
    with pytest.raises(WireError, match=message):
        wire.parse_fields(bytes.fromhex(raw))


@given(st.binary(max_size=64))
def test_any_bytes_are_a_message_or_told(raw: bytes) -> None:
    try:
        fields = wire.parse_fields(raw)
        for number in fields:
            wire.get_strings(fields, number)
    except WireError:
        pass
