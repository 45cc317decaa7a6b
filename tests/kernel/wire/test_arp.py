import select
import time
from contextlib import ExitStack, suppress
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.wire.cabling import Port, cable, configure, host, segment
from tests.kernel.wire.privileges import without_raw_sockets
from tests.waiting import wait_until
from trackbed.kernel.netlink import codec, links
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.sockets import Socket
from trackbed.kernel.wire.arp import (
    REPLY,
    REQUEST,
    AddressClaim,
    AddressConflict,
    ArpPacket,
    Prober,
    build_probe,
    pack,
    parse,
    resolve,
)
from trackbed.kernel.wire.errors import MalformedFrame, NotPermitted
from trackbed.kernel.wire.packets import open_packets, receive_frames_until, send_frame

pytestmark = pytest.mark.needs("namespaces")

A_MAC, B_MAC = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
TEN_1 = int(IPv4Address("10.0.0.1"))
ETH_P_ARP = 0x0806
RFC_826 = bytes.fromhex("0001080006040001020000000001000000000000000000000a000001")


def test_a_probe_has_the_bytes_of_rfc_5227() -> None:
    assert pack(build_probe(AddressClaim(3, A_MAC, TEN_1))) == RFC_826


def test_a_packed_packet_is_read_back_whatever_pads_it() -> None:
    packet = ArpPacket(REPLY, A_MAC, TEN_1, B_MAC, TEN_1 + 1)
    assert parse(pack(packet) + bytes(18)) == packet


@pytest.mark.parametrize(
    "payload",
    [b"", RFC_826[:-1], b"\x00\x06" + RFC_826[2:], RFC_826[:5] + b"\x10" + RFC_826[6:]],
    ids=["empty", "one byte short", "other hardware", "other address length"],
)
def test_a_packet_that_is_not_ipv4_over_ethernet_is_malformed(payload: bytes) -> None:
    with pytest.raises(MalformedFrame):
        parse(payload)


@given(st.binary(max_size=64))
def test_hostile_bytes_are_a_packet_or_malformed(payload: bytes) -> None:
    with suppress(MalformedFrame):
        assert pack(parse(payload)) == payload[:28]


def claim_of(port: Port, address: int) -> AddressClaim:
    return AddressClaim(port.ifindex, port.mac, address)


def collect(prober: Prober, timeout_seconds: float) -> tuple[AddressConflict, ...]:
    """Listen for `timeout_seconds` and return all conflicts; a first conflict does not end it early."""
    deadline = time.monotonic() + timeout_seconds
    while select.select([prober], [], [], max(0, deadline - time.monotonic()))[0]:
        prober.receive()
    return prober.conflicts


def test_an_address_that_another_host_has_is_a_conflict_on_that_interface(stack: ExitStack) -> None:
    us = host(stack)
    taken, other = cable(us, "", host(stack), "10.0.0.1/24")
    free, _ = cable(us, "", host(stack), "10.1.0.9/24")
    prober = stack.enter_context(Prober(us, [claim_of(taken, other.address), claim_of(free, 0x0A010001)]))
    assert prober.send_probes() == ()
    assert collect(prober, 0.2) == (AddressConflict(taken.ifindex, other.address, other.mac),)


def test_an_address_that_only_we_hold_is_no_conflict(stack: ExitStack) -> None:
    us = host(stack)
    switch = segment(stack)
    ports = [switch.attach(us, f"10.0.0.{last}/24") for last in (1, 2)]  # each answers for the other: flux, yet ours
    prober = stack.enter_context(Prober(us, [claim_of(port, port.address) for port in ports]))
    prober.send_probes()
    assert collect(prober, 0.1) == ()


def test_two_hosts_that_probe_for_one_address_both_learn_of_it(stack: ExitStack) -> None:
    near, other = cable(host(stack), "", host(stack), "")
    probers = [stack.enter_context(Prober(port.netns, [claim_of(port, TEN_1)])) for port in (near, other)]
    for prober in probers:
        prober.send_probes()
    assert [collect(prober, 0.1) for prober in probers] == [
        (AddressConflict(near.ifindex, TEN_1, other.mac),),
        (AddressConflict(other.ifindex, TEN_1, near.mac),),
    ]


@pytest.mark.parametrize(
    ("packet", "conflicts"),
    [
        (ArpPacket(REQUEST, B_MAC, TEN_1, bytes(6), TEN_1), 1),
        (ArpPacket(REQUEST, B_MAC, TEN_1, bytes(6), TEN_1 + 9), 1),
        (ArpPacket(REQUEST, B_MAC, TEN_1 + 9, bytes(6), TEN_1), 0),
        (ArpPacket(REPLY, B_MAC, 0, bytes(6), TEN_1), 0),
    ],
    ids=["announcement", "request by the other holder", "request for us by a neighbour", "reply of nobody"],
)
def test_what_counts_as_a_conflict_follows_rfc_5227(stack: ExitStack, packet: ArpPacket, conflicts: int) -> None:
    us, other = cable(host(stack), "", host(stack), "")
    prober = stack.enter_context(Prober(us.netns, [claim_of(us, TEN_1)]))
    packets = stack.enter_context(open_packets(other.netns, 0x0806))
    send_frame(packets, other.ifindex, 0x0806, b"\xff" * 6, pack(packet))
    assert len(collect(prober, 0.05)) == conflicts


def test_an_event_loop_may_wait_for_the_descriptor(stack: ExitStack) -> None:
    us, other = cable(host(stack), "", host(stack), "10.0.0.1/24")
    prober = stack.enter_context(Prober(us.netns, [claim_of(us, other.address)]))
    prober.send_probes()
    assert select.select([prober.fileno()], [], [], 1.0)[0]
    prober.receive()
    assert [conflict.other_mac for conflict in prober.conflicts] == [other.mac]


def test_a_claim_whose_interface_is_gone_is_named_with_the_reason(stack: ExitStack) -> None:
    claim = AddressClaim(999, A_MAC, TEN_1)
    prober = stack.enter_context(Prober(host(stack), [claim]))
    ((unsent, error),) = prober.send_probes()
    assert (unsent, error.strerror) == (claim, "No such device")


def test_flux_shows_as_one_address_answered_by_two_macs_until_arp_ignore_is_set(stack: ExitStack) -> None:
    switch = segment(stack)
    asker = switch.attach(host(stack), "10.0.0.9/24")
    two_rails = host(stack)
    ports = [switch.attach(two_rails, f"10.0.0.{last}/24") for last in (1, 2)]
    wanted = [port.address for port in ports]
    macs = frozenset(port.mac for port in ports)
    assert resolve(asker.netns, asker.ifindex, asker.address, wanted, 1.0) == dict.fromkeys(wanted, macs)
    for port in ports:
        configure(port, {"arp_ignore": 1})
    assert resolve(asker.netns, asker.ifindex, asker.address, wanted, 1.0) == {
        port.address: frozenset([port.mac]) for port in ports
    }


def test_a_target_that_nobody_has_is_answered_by_no_mac(stack: ExitStack) -> None:
    asker, _ = cable(host(stack), "10.0.0.9/24", host(stack), "10.0.0.1/24")
    assert resolve(asker.netns, asker.ifindex, 0, [TEN_1 + 4], 0.05) == {TEN_1 + 4: frozenset()}


def test_without_raw_sockets_nobody_can_ask(stack: ExitStack) -> None:
    netns = host(stack)
    with pytest.raises(NotPermitted, match="AF_PACKET"):
        without_raw_sockets(lambda: Prober(netns, []))


def test_the_error_of_a_missing_namespace_is_not_its_own_cause(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        open_packets(tmp_path / "missing", 0x0806)
    assert caught.value.__cause__ is None


def test_stations_without_number_that_claim_one_address_fill_no_memory(stack: ExitStack) -> None:
    us, other = cable(host(stack), "", host(stack), "")
    prober = stack.enter_context(Prober(us.netns, [claim_of(us, TEN_1)]))
    packets = stack.enter_context(open_packets(other.netns, 0x0806))
    for number in range(200):
        stranger = b"\x02\0\0\0\0" + bytes([number])
        packet = pack(ArpPacket(REPLY, stranger, TEN_1, bytes(6), TEN_1))
        send_frame(packets, other.ifindex, 0x0806, b"\xff" * 6, packet)
    assert len(collect(prober, 0.1)) == 16


def test_an_interface_whose_name_is_no_utf8_hides_no_packets_of_others() -> None:
    with ExitStack() as stack:
        pod, switch = host(stack), host(stack)
        (odd, odd_far), (rail, rail_far) = (cable(pod, "", switch, "") for _ in range(2))
        with Socket(netns=pod) as sock:
            name = codec.pack_attribute(links.IFLA_IFNAME, b"v\xff\0")
            down, up = (links.build_set_link(odd.ifindex, up=is_up) for is_up in (False, True))
            sock.send([down, Message(down.type, 0, down.body + name), up])
        wait_until(lambda: _is_running(pod, odd.ifindex), "the renamed interface does not come up")
        receiver = stack.enter_context(open_packets(pod, ETH_P_ARP))
        sender = stack.enter_context(open_packets(switch, ETH_P_ARP))
        for port in (odd_far, rail_far):
            send_frame(sender, port.ifindex, ETH_P_ARP, b"\xff" * 6, RFC_826)
        frame = next(receive_frames_until(receiver, 30))
        assert frame.ifindex == rail.ifindex
        with pytest.raises(OSError, match=f"interface {odd.ifindex} has a name that is no UTF-8"):
            send_frame(receiver, odd.ifindex, ETH_P_ARP, b"\xff" * 6, RFC_826)


def _is_running(netns: int, ifindex: int) -> bool:
    with Socket(netns=netns) as sock:
        return any(link.index == ifindex and link.is_running for link in links.list_links(sock))
