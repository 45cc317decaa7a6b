"""The golden bytes are what rdma(8) of iproute2 6.15 sent, and Linux 7.2 answered, over a soft-RoCE device."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.kernel.netlink import codec, rdma
from trackbed.kernel.netlink.codec import MalformedError, Message
from trackbed.kernel.netlink.links import VethEnd, create_veth
from trackbed.kernel.netlink.rdma import RdmaDevice, RdmaPort
from trackbed.kernel.netlink.sockets import NETLINK_RDMA, BatchError, RequestError, Socket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

little = pytest.mark.skipif(sys.byteorder != "little", reason="the golden bytes are little endian")

DEVICE = bytes.fromhex(
    "08000100 00000000 09000200 72786539 00000000 08000300 01000000 0c000400 763c2201 c0010000"
    "0c000600 000700fe ff425400 0c000700 000700fe ff425400 05000e00 01000000 05005400 00000000"
    "05006500 01000000 09004300 726f6365 00000000"
)
PORT = bytes.fromhex(
    "08000100 00000000 09000200 72786539 00000000 08000300 01000000 05000c00 01000000 05000d00 03000000"
    "08003200 06000000 0a003300 7261696c 37000000"
)
MODE = bytes.fromhex("05004200 01000000 05006000 00000000 05006700 01000000 05005d00 01000000")


@little
@pytest.mark.parametrize(
    ("message", "kind", "body"),
    [
        pytest.param(rdma.build_device_dump(), 0x1401, "", id="rdma dev show"),
        pytest.param(
            rdma.build_port_request(0, 1), 0x1405, "08000100 00000000 08000300 01000000", id="rdma link show rxe9/1"
        ),
        pytest.param(
            rdma.create_link("rxe9", "rail7"),
            0x1403,
            "09000200 72786539 00000000 08004100 72786500 0a003300 7261696c 37000000",
            id="rdma link add rxe9 type rxe netdev rail7",
        ),
        pytest.param(rdma.delete_link(0), 0x1404, "08000100 00000000", id="rdma link delete rxe8"),
        pytest.param(
            rdma.rename_device(0, "rxe8"),
            0x1402,
            "08000100 00000000 09000200 72786538 00000000",
            id="rdma dev set rxe9 name rxe8",
        ),
        pytest.param(
            rdma.move_device(0, 4), 0x1402, "08000100 00000000 08004400 04000000", id="rdma dev set rxe8 netns nn"
        ),
        pytest.param(rdma.build_netns_mode_request(), 0x1406, "", id="rdma system show"),
        pytest.param(
            rdma.set_netns_mode("exclusive"), 0x1407, "05004200 00000000", id="rdma system set netns exclusive"
        ),
        pytest.param(rdma.set_netns_mode("shared"), 0x1407, "05004200 01000000", id="rdma system set netns shared"),
    ],
)
def test_messages_are_those_of_the_rdma_program(message: Message, kind: int, body: str) -> None:
    assert (message.type, message.flags, message.body.hex()) == (kind, 0, body.replace(" ", ""))


@little
def test_device_is_read_as_the_rdma_program_shows_it() -> None:
    guid = "0054:42ff:fe00:0700"
    assert rdma.parse_device(DEVICE) == RdmaDevice(0, "rxe9", 1, guid, guid, "", "roce")


@little
def test_port_is_read_as_the_rdma_program_shows_it() -> None:
    assert rdma.parse_port(PORT) == RdmaPort(0, "rxe9", 1, "down", "disabled", "rail7", 6)


@little
def test_mode_is_read_as_the_rdma_program_shows_it() -> None:
    assert rdma.parse_netns_mode(MODE) == "shared"


@pytest.mark.parametrize(
    "body",
    [b"", codec.pack_u8(66, 2), codec.pack_u32(66, 1), codec.pack_attribute(66, b"")],
    ids=["no mode", "an unknown mode", "a mode of 4 bytes", "an empty mode"],
)
def test_mode_that_is_none_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedError):
        rdma.parse_netns_mode(body)


def test_states_that_a_newer_kernel_knows_are_told_as_numbers() -> None:
    body = (
        codec.pack_u32(1, 0)
        + codec.pack_string(2, "x")
        + codec.pack_u32(3, 1)
        + codec.pack_u8(12, 200)
        + codec.pack_u8(13, 201)
    )
    parsed = rdma.parse_port(body)
    assert (parsed.state, parsed.physical_state, parsed.netdev, parsed.netdev_index) == ("200", "201", None, None)


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
        + codec.pack_u64(6, guid)
        + codec.pack_u64(7, guid)
    )
    parsed = rdma.parse_device(body)
    assert (parsed.index, parsed.name, parsed.ports, int(parsed.node_guid.replace(":", ""), 16)) == (
        index,
        name,
        2,
        guid,
    )


@pytest.mark.parametrize(
    "read", [rdma.parse_device, rdma.parse_port, rdma.parse_netns_mode], ids=["device", "port", "mode"]
)
@given(data=st.binary(max_size=120))
def test_hostile_bytes_are_malformed_and_nothing_else(read: Callable[[bytes], object], data: bytes) -> None:
    with suppress(MalformedError):
        assert read(data) is not None


@pytest.mark.parametrize(
    ("read", "body"), [(rdma.parse_device, DEVICE), (rdma.parse_port, PORT)], ids=["device", "port"]
)
def test_answer_cut_short_anywhere_is_read_or_malformed(read: Callable[[bytes], object], body: bytes) -> None:
    refused = 0
    for length in range(len(body)):
        try:
            read(body[:length])
        except MalformedError:
            refused += 1
    assert refused > len(body) // 2


@given(st.integers(0, len(DEVICE) - 1), st.integers(0, 255))
def test_answer_with_one_wrong_byte_is_read_or_malformed(at: int, byte: int) -> None:
    with suppress(MalformedError):
        assert rdma.parse_device(DEVICE[:at] + bytes([byte]) + DEVICE[at + 1 :]).name


@pytest.fixture
def soft(sock: Socket, here: int) -> Iterator[tuple[Socket, RdmaDevice]]:
    """A soft-RoCE device on a veth of its own namespace, and the socket that sees it."""
    sock.send([create_veth(VethEnd("rail0", index=20), VethEnd("leaf"))])
    try:
        talk = Socket(NETLINK_RDMA, here)
    except OSError as error:
        pytest.skip(f"this kernel has no RDMA: {error.strerror}")
    with talk:
        name = f"tb{os.getpid()}"
        try:
            talk.send([rdma.create_link(name, "rail0")])
        except BatchError as error:
            pytest.skip(f"this kernel has no soft-RoCE: {error}")
        made = next(listed for listed in rdma.list_devices(talk) if listed.name == name)
        yield talk, made
        with suppress(BatchError):
            talk.send([rdma.delete_link(made.index)])


@pytest.mark.may_skip("needs a kernel with soft-RoCE")
def test_soft_device_is_made_shown_renamed_and_deleted(soft: tuple[Socket, RdmaDevice]) -> None:
    talk, made = soft
    (link,) = rdma.list_ports(talk, made)
    assert (made.ports, made.protocol, link.netdev, link.netdev_index) == (1, "roce", "rail0", 20)
    assert rdma.get_netns_mode(talk) in {"exclusive", "shared"}
    talk.send([rdma.rename_device(made.index, f"{made.name}x")])
    assert f"{made.name}x" in [listed.name for listed in rdma.list_devices(talk)]
    talk.send([rdma.delete_link(made.index)])
    assert made.index not in [listed.index for listed in rdma.list_devices(talk)]


@pytest.mark.may_skip("needs a kernel with RDMA")
def test_device_that_is_not_there_is_refused() -> None:
    try:
        talk = Socket(NETLINK_RDMA)
    except OSError as error:
        pytest.skip(f"this kernel has no RDMA: {error.strerror}")
    with talk, pytest.raises(RequestError) as caught:
        rdma.list_ports(talk, RdmaDevice(2**31 - 1, "x", 1, "", "", "", ""))
    assert caught.value.errno == errno.EINVAL
