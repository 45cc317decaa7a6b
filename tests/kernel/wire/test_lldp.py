import dataclasses
import time
from contextlib import ExitStack, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.senders import announce
from tests.kernel.wire.cabling import cable, host
from trackbed.kernel.wire.errors import MalformedFrame
from trackbed.kernel.wire.lldp import (
    NEAREST_BRIDGE,
    Advertisement,
    collect,
    decode,
    encode,
    listen,
    subscribe,
)
from trackbed.kernel.wire.packets import open_packets, send_frame

LEAF = Advertisement("leaf-0", "swp1", 120, system_name="leaf-0", port_description="to worker 0", port_vlan=100)
MANDATORY = bytes.fromhex("0204076c6566040305737706020078")

names = st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="\\"), min_size=1, max_size=60)


@given(
    st.builds(
        Advertisement,
        chassis_id=names,
        port_id=names,
        ttl_seconds=st.integers(0, 0xFFFF),
        system_name=st.none() | names,
        port_description=st.none() | names,
        port_vlan=st.none() | st.integers(0, 4094),
    )
)
def test_what_is_encoded_is_decoded(advertisement: Advertisement) -> None:
    assert decode(encode(advertisement) + bytes(20)) == advertisement


@given(st.binary(max_size=300) | st.binary(max_size=200).map(lambda tail: MANDATORY + tail))
def test_hostile_bytes_are_an_advertisement_or_malformed(payload: bytes) -> None:
    with suppress(MalformedFrame):
        assert decode(payload).chassis_id.isprintable()


@pytest.mark.parametrize(
    ("identifiers", "chassis_id", "port_id"),
    [
        ("0207 04 020000000001 0407 03 020000000002", "02:00:00:00:00:01", "02:00:00:00:00:02"),
        ("0206 05 01 0a000001 0406 04 01 0a000002", "10.0.0.1", "10.0.0.2"),
        ("0205 04 61626364 0403 07 6100", "abcd", "a"),
        ("0204 07 1b5b4a 0402 07 ff", "\\x1b[J", "\\xff"),
    ],
    ids=["MACs", "addresses", "a MAC of four bytes is text", "escape sequences are shown, not sent"],
)
def test_ids_are_shown_as_a_human_writes_them(identifiers: str, chassis_id: str, port_id: str) -> None:
    heard = decode(bytes.fromhex(identifiers) + bytes.fromhex("06020078 0000"))
    assert (heard.chassis_id, heard.port_id) == (chassis_id, port_id)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        MANDATORY[:-1],
        MANDATORY[6:],
        MANDATORY[:11],
        bytes.fromhex("020107") + MANDATORY[6:],
        MANDATORY + bytes.fromhex("0aff41"),
        MANDATORY + bytes.fromhex("fe050080c20101"),
    ],
    ids=["empty", "cut short", "no chassis id", "no TTL", "empty id", "name past the end", "VLAN id of one byte"],
)
def test_a_frame_that_breaks_the_standard_is_malformed(payload: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode(payload)


@pytest.mark.parametrize(
    "change",
    [{"chassis_id": ""}, {"port_id": "x" * 256}, {"system_name": "x" * 512}, {"port_vlan": 4095}, {"ttl_seconds": -1}],
    ids=lambda change: next(iter(change)),
)
def test_what_does_not_fit_the_standard_is_not_sent(change: dict[str, str | int]) -> None:
    with pytest.raises(ValueError, match=r"LLDP|outside"):
        encode(dataclasses.replace(LEAF, **change))  # type: ignore[arg-type] # a table of several types


@pytest.mark.needs("namespaces")
def test_both_ends_of_a_cable_hear_each_other(stack: ExitStack) -> None:
    node, leaf = cable(host(stack), "", host(stack), "")
    at_node = stack.enter_context(subscribe(node.netns, [node.ifindex]))
    at_leaf = stack.enter_context(subscribe(leaf.netns, [leaf.ifindex]))
    worker = Advertisement("worker-0", node.name)
    announce(leaf.netns, {leaf.ifindex: LEAF})
    announce(node.netns, {node.ifindex: worker})
    started = time.monotonic()
    assert collect(at_node, [node.ifindex], 5.0).neighbours == {node.ifindex: LEAF}
    assert collect(at_leaf, [leaf.ifindex], 5.0).neighbours == {leaf.ifindex: worker}
    assert time.monotonic() - started < 5  # who has heard all does not wait for more


@pytest.mark.needs("namespaces")
def test_a_silent_cable_has_no_neighbour_and_a_garbled_one_says_why(stack: ExitStack) -> None:
    node, leaf = cable(host(stack), "", host(stack), "")
    silent, _ = cable(node.netns, "", leaf.netns, "")
    ifindexes = [node.ifindex, silent.ifindex]
    gathered = stack.enter_context(subscribe(node.netns, ifindexes))
    packets = stack.enter_context(open_packets(leaf.netns, 0x88CC))
    send_frame(packets, leaf.ifindex, 0x88CC, NEAREST_BRIDGE, b"\xff\xff")
    heard = collect(gathered, ifindexes, 0.1)
    assert heard.neighbours == {}
    assert heard.malformed == {node.ifindex: "the LLDP TLV at byte 0 has length 511, the frame has 0 left"}


@pytest.mark.needs("namespaces")
def test_listening_on_an_interface_that_is_gone_says_so(stack: ExitStack) -> None:
    with pytest.raises(OSError, match="No such device"):
        listen(host(stack), [999], 0.1)
