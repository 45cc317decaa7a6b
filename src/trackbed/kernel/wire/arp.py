"""Who holds an IPv4 address in this segment: ARP (RFC 826) and address conflict detection (RFC 5227).

    prober = Prober(netns, claims)
    unsent = prober.fire()            # one probe for each claim, at once, without waiting
    ...                               # answer the runtime; bring the pod up
    prober.collect(timeout_seconds)   # or: add_reader(prober.fileno(), prober.receive), then prober.conflicts
    prober.close()                    # waits for an RCU grace period; an event loop calls it in a thread

A conflict (RFC 5227, section 2.1.1) is an ARP packet, from a MAC that is none of ours, that either names a claimed
address as its sender's (a reply, a request, an announcement) or probes for it (sender 0.0.0.0), meaning that another
host is about to take it too.
"""

import socket
import struct
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from trackbed.kernel.wire.errors import MalformedFrame
from trackbed.kernel.wire.netns_sockets import Netns
from trackbed.kernel.wire.packets import Frame, open_packets, read_mac, receive_pending, receive_until, send_frame

REQUEST = 1  # RFC 826: ares_op$REQUEST
REPLY = 2  # RFC 826: ares_op$REPLY

_ETHERTYPE = 0x0806
_ETHERNET, _IPV4 = 1, 0x0800  # ar_hrd and ar_pro
_PACKET = struct.Struct("!HHBBH6sI6sI")
_BROADCAST = b"\xff" * 6
_NOBODY = b"\0" * 6
_SETTLE_SECONDS = 0.05  # a second answerer in one segment is at most a few milliseconds behind the first


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
    """Another station, `other_mac`, uses or wants the address claimed by interface `ifindex`."""

    ifindex: int
    address: int
    other_mac: bytes


def pack(packet: ArpPacket) -> bytes:
    """Return the 28 bytes of RFC 826 for Ethernet and IPv4."""
    head = (_ETHERNET, _IPV4, 6, 4, packet.operation)
    return _PACKET.pack(*head, packet.sender_mac, packet.sender, packet.target_mac, packet.target)


def parse(payload: bytes) -> ArpPacket:
    """Read an ARP packet; Ethernet's padding after it is ignored.

    Raises:
        MalformedFrame: it is too short, or not about IPv4 over Ethernet.
    """
    if len(payload) < _PACKET.size:
        raise MalformedFrame(f"an ARP packet has {_PACKET.size} bytes, this one {len(payload)}")
    *head, operation, sender_mac, sender, target_mac, target = _PACKET.unpack_from(payload)
    if head != [_ETHERNET, _IPV4, 6, 4]:
        raise MalformedFrame(f"an ARP packet for IPv4 over Ethernet begins with (1, 0x800, 6, 4), this one with {head}")
    return ArpPacket(operation, sender_mac, sender, target_mac, target)


def build_probe(claim: AddressClaim) -> ArpPacket:
    """Return the probe of RFC 5227, section 2.1: a request whose sender has no address yet, so no cache learns it."""
    return ArpPacket(REQUEST, claim.mac, 0, _NOBODY, claim.address)


class Prober:
    """Probes for all claims of one network namespace through one socket; see the module for its use."""

    def __init__(self, netns: Netns, claims: Iterable[AddressClaim]) -> None:
        """Open the socket; it listens from now on.

        Raises:
            NotPermitted: the process lacks CAP_NET_RAW.
        """
        self._claims = tuple(claims)
        self._ours = frozenset(claim.mac for claim in self._claims)
        self._claimed = frozenset((claim.ifindex, claim.address) for claim in self._claims)
        self._conflicts: set[AddressConflict] = set()
        self._packets = open_packets(netns, _ETHERTYPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def conflicts(self) -> tuple[AddressConflict, ...]:
        """The conflicts heard of so far, in order of interface and address."""
        return tuple(sorted(self._conflicts))

    def send_probes(self) -> tuple[tuple[AddressClaim, OSError], ...]:
        """Send one probe for each claim, without waiting; return the claims that could not be asked about, and why.

        RFC 5227 asks for three probes a second or two apart: call it again while watching.
        """
        unsent = []
        for claim in self._claims:
            try:
                send_frame(self._packets, claim.ifindex, _ETHERTYPE, _BROADCAST, pack(build_probe(claim)))
            except OSError as error:
                unsent.append((claim, error))
        return tuple(unsent)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when `receive` has something to do."""
        return self._packets.fileno()

    def receive(self) -> None:
        """Take in what has arrived, without waiting."""
        for frame in receive_pending(self._packets):
            self._judge(frame.ifindex, frame.payload)

    def collect(self, timeout_seconds: float) -> tuple[AddressConflict, ...]:
        """Listen for `timeout_seconds`, then return all conflicts heard of; one conflict does not end it early."""
        for frame in receive_until(self._packets, timeout_seconds):
            self._judge(frame.ifindex, frame.payload)
        return self.conflicts

    def close(self) -> None:
        """Stop listening. Takes up to 20 ms in the kernel: an event loop calls it in a thread."""
        self._packets.close()

    def _judge(self, ifindex: int, payload: bytes) -> None:
        try:
            packet = parse(payload)
        except MalformedFrame:  # others' broken packets claim nothing
            return
        wanted = packet.sender or (packet.target if packet.operation == REQUEST else 0)
        if (ifindex, wanted) in self._claimed and packet.sender_mac not in self._ours:
            self._conflicts.add(AddressConflict(ifindex, wanted, packet.sender_mac))


def resolve(
    netns: Netns, ifindex: int, source: int, targets: Collection[int], timeout_seconds: float
) -> dict[int, frozenset[bytes]]:
    """Ask for `targets` on one interface and return, for each, every MAC that answered; none: an empty set.

    One address answered by two MACs is ARP flux (or a conflict). `source` is an address of ours, or 0 to leave the
    neighbours' caches as they are. Ends at the deadline, or 50 ms after the last target has answered.

    Raises:
        NotPermitted: the process lacks CAP_NET_RAW.
        OSError: the interface is gone (ENODEV) or down (ENETDOWN).
    """
    answers: dict[int, set[bytes]] = {target: set() for target in targets}
    with open_packets(netns, _ETHERTYPE) as packets:
        mac = read_mac(packets, ifindex)
        for target in answers:
            send_frame(packets, ifindex, _ETHERTYPE, _BROADCAST, pack(ArpPacket(REQUEST, mac, source, _NOBODY, target)))
        _hear(packets, ifindex, answers, timeout_seconds)
    return {target: frozenset(macs) for target, macs in answers.items()}


def _hear(packets: socket.socket, ifindex: int, answers: dict[int, set[bytes]], timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    for frame in receive_until(packets, timeout_seconds):
        _note(frame, ifindex, answers)
        if all(answers.values()):
            break
    for frame in receive_until(packets, min(_SETTLE_SECONDS, deadline - time.monotonic())):
        _note(frame, ifindex, answers)


def _note(frame: Frame, ifindex: int, answers: dict[int, set[bytes]]) -> None:
    try:
        packet = parse(frame.payload)
    except MalformedFrame:  # as in _judge
        return
    if frame.ifindex == ifindex and packet.operation == REPLY and packet.sender in answers:
        answers[packet.sender].add(packet.sender_mac)
