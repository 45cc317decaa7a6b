"""The golden bytes are what rdma(8) of iproute2 6.15 sent, and Linux 7.2 answered, over a soft-RoCE device."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.kernel.netlink import codec, rdma
from trackbed.kernel.netlink.codec import MalformedError, Message
from trackbed.kernel.netlink.links import VethEnd, build_create_veth
from trackbed.kernel.netlink.rdma import RdmaDevice
from trackbed.kernel.netlink.sockets import NETLINK_RDMA, BatchError, Socket

little = pytest.mark.skipif(sys.byteorder != "little", reason="the golden bytes are little endian")

DEVICE = bytes.fromhex(
    "08000100 00000000 09000200 72786539 00000000 08000300 01000000 0c000400 763c2201 c0010000"
    "0c000600 000700fe ff425400 0c000700 000700fe ff425400 05000e00 01000000 05005400 00000000"
    "05006500 01000000 09004300 726f6365 00000000"
)


@little
@pytest.mark.parametrize(
    ("message", "kind", "body"),
    [
        pytest.param(rdma.build_device_dump(), 0x1401, "", id="rdma dev show"),
        pytest.param(
            rdma.build_create_link("rxe9", "rail7"),
            0x1403,
            "09000200 72786539 00000000 08004100 72786500 0a003300 7261696c 37000000",
            id="rdma link add rxe9 type rxe netdev rail7",
        ),
        pytest.param(
            rdma.build_rename_device(0, "rxe8"),
            0x1402,
            "08000100 00000000 09000200 72786538 00000000",
            id="rdma dev set rxe9 name rxe8",
        ),
        pytest.param(
            rdma.build_move_device(0, 4), 0x1402, "08000100 00000000 08004400 04000000", id="rdma dev set rxe8 netns nn"
        ),
        pytest.param(
            rdma.build_set_netns_mode("exclusive"), 0x1407, "05004200 00000000", id="rdma system set netns exclusive"
        ),
        pytest.param(
            rdma.build_set_netns_mode("shared"), 0x1407, "05004200 01000000", id="rdma system set netns shared"
        ),
    ],
)
def test_messages_are_those_of_the_rdma_program(message: Message, kind: int, body: str) -> None:
    assert (message.type, message.flags, message.body.hex()) == (kind, 0, body.replace(" ", ""))


@little
def test_device_is_read_as_the_rdma_program_shows_it() -> None:
    guid = "0054:42ff:fe00:0700"
    assert rdma.parse_device(DEVICE) == RdmaDevice(0, "rxe9", 1, guid, guid, "", "roce")


@given(
    st.integers(0, 2**32 - 1),
    st.text(st.characters(codec="ascii", min_codepoint=33), min_size=1, max_size=63),
    st.integers(0, 2**64 - 1),
)
def test_device_is_the_same_after_being_packed_and_read(index: int, name: str, guid: int) -> None:
    body = (
        codec.pack_u32(1, index)
        + codec.pack_string(2, name)
        + codec.pack_u32(3, 2)
        + codec.pack_attribute(6, guid.to_bytes(8, sys.byteorder))
        + codec.pack_attribute(7, guid.to_bytes(8, sys.byteorder))
    )
    parsed = rdma.parse_device(body)
    assert (parsed.index, parsed.name, parsed.ports, int(parsed.node_guid.replace(":", ""), 16)) == (
        index,
        name,
        2,
        guid,
    )


@given(data=st.binary(max_size=120))
def test_hostile_bytes_are_malformed_and_nothing_else(data: bytes) -> None:
    with suppress(MalformedError):
        assert rdma.parse_device(data) is not None


def test_answer_cut_short_anywhere_is_read_or_malformed() -> None:
    refused = 0
    for length in range(len(DEVICE)):
        try:
            rdma.parse_device(DEVICE[:length])
        except MalformedError:
            refused += 1
    assert refused > len(DEVICE) // 2


@given(st.integers(0, len(DEVICE) - 1), st.integers(0, 255))
def test_answer_with_one_wrong_byte_is_read_or_malformed(at: int, byte: int) -> None:
    with suppress(MalformedError):
        assert rdma.parse_device(DEVICE[:at] + bytes([byte]) + DEVICE[at + 1 :]).name


def delete_link(index: int) -> Message:
    """Return the message that deletes a software device (RDMA_NLDEV_CMD_DELLINK)."""
    return Message((rdma.RDMA_NL_NLDEV << 10) + 4, 0, codec.pack_u32(rdma.RDMA_NLDEV_ATTR_DEV_INDEX, index))


@pytest.fixture
def soft(sock: Socket, here: int) -> Iterator[tuple[Socket, RdmaDevice]]:
    """A soft-RoCE device on a veth of its own namespace, and the socket that sees it."""
    sock.send([build_create_veth(VethEnd("rail0", index=20), VethEnd("leaf"))])
    try:
        talk = Socket(NETLINK_RDMA, here)
    except OSError as error:
        pytest.skip(f"this kernel has no RDMA: {error.strerror}")
    with talk:
        name = f"tb{os.getpid()}"
        try:
            talk.send([rdma.build_create_link(name, "rail0")])
        except BatchError as error:
            pytest.skip(f"this kernel has no soft-RoCE: {error}")
        made = next(listed for listed in rdma.list_devices(talk) if listed.name == name)
        yield talk, made
        with suppress(BatchError):
            talk.send([delete_link(made.index)])


@pytest.mark.may_skip("needs a kernel with soft-RoCE")
def test_soft_device_is_made_shown_renamed_and_deleted(soft: tuple[Socket, RdmaDevice]) -> None:
    talk, made = soft
    assert (made.ports, made.protocol) == (1, "roce")
    talk.send([rdma.build_rename_device(made.index, f"{made.name}x")])
    assert f"{made.name}x" in [listed.name for listed in rdma.list_devices(talk)]
    talk.send([delete_link(made.index)])
    assert made.index not in [listed.index for listed in rdma.list_devices(talk)]
