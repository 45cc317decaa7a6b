"""Address conflicts and address resolution on a segment: ARP (RFC 826), address conflict detection (RFC 5227).

    prober = Prober(netns, claims)
    unsent = prober.send_probes()     # one probe for each claim, without waiting
    ...                               # reply to the runtime; bring the pod up
    loop.add_reader(prober.fileno(), prober.receive)
    prober.conflicts                  # those received so far
    prober.close()                    # waits for an RCU grace period; run it in a thread of an event loop

A conflict (RFC 5227, section 2.1.1) is an ARP packet from a foreign MAC address that either has a claimed address as
its sender (a reply, a request, an announcement) or probes for it (sender 0.0.0.0): another host is about to use the
address as well.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from trackbed.kernel.wire.errors import MalformedFrame
from trackbed.kernel.wire.netns_sockets import Netns
from trackbed.kernel.wire.packets import (
    Frame,
    open_packets,
    read_mac,
    receive_frames_until,
    receive_pending_frames,
    send_frame,
)

REQUEST = 1  # RFC 826: ares_op$REQUEST
REPLY = 2  # RFC 826: ares_op$REPLY

_ETHERTYPE = 0x0806
_ETHERNET, _IPV4 = 1, 0x0800  # ar_hrd and ar_pro
_PACKET = struct.Struct("!HHBBH6sI6sI")
_BROADCAST = b"\xff" * 6
_NOBODY = b"\0" * 6
_MAX_CONFLICTS = 16
"""Stations that are recorded for one claim: anyone on the segment can send in the name of any number."""
_SETTLE_SECONDS = 0.05  # a second reply in one segment is at most a few milliseconds late


@dataclass(frozen=True, slots=True)
class ArpPacket:
    """An ARP packet for IPv4 over Ethernet; addresses are ints, MACs 6 bytes."""

    operation: int
    sender_mac: bytes
    sender: int
    target_mac: bytes
    target: int


@dataclass(frozen=True, slots=True)
class AddressClaim:
    """An address that the interface with this MAC holds or is about to hold."""

    ifindex: int
    mac: bytes
    address: int


@dataclass(frozen=True, slots=True, order=True)
class AddressConflict:
    """Another station, `other_mac`, uses or requests the address claimed by interface `ifindex`."""

    ifindex: int
    address: int
    other_mac: bytes


def pack(packet: ArpPacket) -> bytes:
    """Return the 28 bytes of RFC 826 for Ethernet and IPv4."""
    header = (_ETHERNET, _IPV4, 6, 4, packet.operation)
    return _PACKET.pack(*header, packet.sender_mac, packet.sender, packet.target_mac, packet.target)


def parse(payload: bytes) -> ArpPacket:
    """Parse an ARP packet; Ethernet padding after it is ignored.

    Raises:
        MalformedFrame: it is too short, or not IPv4 over Ethernet.
    """
    if len(payload) < _PACKET.size:
        raise MalformedFrame(f"an ARP packet has {_PACKET.size} bytes, this one {len(payload)}")
    *header, operation, sender_mac, sender, target_mac, target = _PACKET.unpack_from(payload)
    if header != [_ETHERNET, _IPV4, 6, 4]:
        raise MalformedFrame(
            f"an ARP packet for IPv4 over Ethernet begins with (1, 0x800, 6, 4), this one with {header}"
        )
    return ArpPacket(operation, sender_mac, sender, target_mac, target)


def build_probe(claim: AddressClaim) -> ArpPacket:
    """Return the probe of RFC 5227, section 2.1: a request without sender address, so that no cache learns it."""
    return ArpPacket(REQUEST, claim.mac, 0, _NOBODY, claim.address)


class Prober:
    """Prober for all claims in one network namespace, through one socket; the module shows its use."""

    def __init__(self, netns: Netns, claims: Iterable[AddressClaim]) -> None:
        """Open the socket, which receives from now on.

        Raises:
            NotPermitted: the process lacks CAP_NET_RAW.
        """
        self._claims = tuple(claims)
        self._own_macs = frozenset(claim.mac for claim in self._claims)
        self._claimed = frozenset((claim.ifindex, claim.address) for claim in self._claims)
        self._conflicts: set[AddressConflict] = set()
        self._packets = open_packets(netns, _ETHERTYPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def conflicts(self) -> tuple[AddressConflict, ...]:
        """Conflicts received so far, in order of interface and address."""
        return tuple(sorted(self._conflicts))

    def send_probes(self) -> tuple[tuple[AddressClaim, OSError], ...]:
        """Send one probe for each claim, without waiting; return the claims whose probe failed, with the error.

        RFC 5227 requires three probes one or two seconds apart: call it again while listening.
        """
        unsent = []
        for claim in self._claims:
            try:
                send_frame(self._packets, claim.ifindex, _ETHERTYPE, _BROADCAST, pack(build_probe(claim)))
            except OSError as error:
                unsent.append((claim, error))
        return tuple(unsent)

    def fileno(self) -> int:
        """Return the descriptor, which becomes readable when packets have arrived for `receive`."""
        return self._packets.fileno()

    def receive(self) -> None:
        """Process the packets that have arrived, without waiting, and record conflicts."""
        for frame in receive_pending_frames(self._packets):
            self._record_conflict(frame.ifindex, frame.payload)

    def close(self) -> None:
        """Close the socket. This takes up to 20 ms in the kernel: run it in a thread of an event loop."""
        self._packets.close()

    def _record_conflict(self, ifindex: int, payload: bytes) -> None:
        try:
            packet = parse(payload)
        except MalformedFrame:  # a malformed packet claims no address
            return
        contested = packet.sender or (packet.target if packet.operation == REQUEST else 0)
        claim = ifindex, contested
        if claim not in self._claimed or packet.sender_mac in self._own_macs:
            return
        if sum((conflict.ifindex, conflict.address) == claim for conflict in self._conflicts) < _MAX_CONFLICTS:
            self._conflicts.add(AddressConflict(*claim, packet.sender_mac))


def resolve(
    netns: Netns, ifindex: int, source: int, targets: Collection[int], timeout_seconds: float
) -> dict[int, frozenset[bytes]]:
    """Resolve `targets` on one interface; return every MAC that replied for each (an empty set for none).

    Two MACs for one address mean ARP flux or a conflict. `source` is an address of this host, or 0 to leave the
    neighbours' caches alone. Ends at the deadline, or 50 ms after every target has replied.

    Raises:
        NotPermitted: the process lacks CAP_NET_RAW.
        OSError: the interface has gone (ENODEV) or is down (ENETDOWN).
    """
    answers: dict[int, set[bytes]] = {target: set() for target in targets}
    with open_packets(netns, _ETHERTYPE) as packets:
        mac = read_mac(packets, ifindex)
        for target in answers:
            send_frame(packets, ifindex, _ETHERTYPE, _BROADCAST, pack(ArpPacket(REQUEST, mac, source, _NOBODY, target)))
        _collect_replies(packets, ifindex, answers, timeout_seconds)
    return {target: frozenset(macs) for target, macs in answers.items()}


def _collect_replies(
    packets: socket.socket, ifindex: int, answers: dict[int, set[bytes]], timeout_seconds: float
) -> None:
    deadline = time.monotonic() + timeout_seconds
    for frame in receive_frames_until(packets, timeout_seconds):
        _record_reply(frame, ifindex, answers)
        if all(answers.values()):
            break
    for frame in receive_frames_until(packets, min(_SETTLE_SECONDS, deadline - time.monotonic())):
        _record_reply(frame, ifindex, answers)


def _record_reply(frame: Frame, ifindex: int, answers: dict[int, set[bytes]]) -> None:
    try:
        packet = parse(frame.payload)
    except MalformedFrame:  # as in _record_conflict
        return
    if frame.ifindex == ifindex and packet.operation == REPLY and packet.sender in answers:
        answers[packet.sender].add(packet.sender_mac)
