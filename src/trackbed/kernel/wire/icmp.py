"""Does an address answer, how far away is it, how large may a packet be: ICMP echo (RFC 792, RFC 4443, RFC 1191).

Every ping has a socket of its own, connected to its target: the kernel then hands it that target's replies and, through
the error queue (IP_RECVERR, ip(7)), every error about its packet, so nothing has to be sorted out afterwards.
It is a raw socket where the process may open one (CAP_NET_RAW), else a ping socket, if net.ipv4.ping_group_range
allows it.
"""

import errno
import os
import secrets
import selectors
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal, NamedTuple

from trackbed.kernel.wire.addresses import to_socket_address
from trackbed.kernel.wire.errors import NotPermitted
from trackbed.kernel.wire.netns_sockets import Netns, open_socket

Outcome = Literal["answered", "silent", "too-large", "unreachable", "expired"]
"""too-large: with "do not fragment" the packet does not fit; expired: its TTL ended on the way."""

_HEADER = struct.Struct("!BBHHH")  # type, code, checksum, identifier, sequence number
_SEQUENCE = 1
_SEND_TRIES = 2  # the first may be refused with an error that another ping earned
_IDENTIFIERS = 1 << 16
_FIRST_TTLS = (64, 128, 255)  # what Linux, Windows and routers begin with

# include/uapi/linux/{in,in6,icmp,icmpv6,errqueue}.h; what the socket module of Python 3.11 lacks stands as a number
_IP_TTL, _IP_MTU_DISCOVER, _IP_RECVERR, _IP_RECVTTL, _PROBE_MTU = 2, 10, 11, 12, 3
_IPV6_MTU_DISCOVER, _IPV6_RECVERR, _IPV6_DONTFRAG = 23, 25, 62
_EXTENDED_ERROR = struct.Struct("=IBBBBII")  # errno, origin, type, code, padding, info, data; then a sockaddr
_FROM_ICMP, _FROM_ICMP6 = 2, 3
_EXPIRED = ((_FROM_ICMP, 11), (_FROM_ICMP6, 3))
_ANCILLARY_BYTES = 512
_READ_BYTES = 1 << 16


class _Protocol(NamedTuple):
    """What differs between ICMP and ICMPv6."""

    number: int
    request: int
    reply: int
    level: int
    ttl: int
    errors: int
    address_at: int  # in struct sockaddr_in and sockaddr_in6
    address_bytes: int
    asked: tuple[tuple[int, int], ...]  # options that are always on
    dont_fragment: tuple[tuple[int, int], ...]


_PROTOCOLS = {
    socket.AF_INET: _Protocol(
        number=socket.IPPROTO_ICMP,
        request=8,
        reply=0,
        level=socket.IPPROTO_IP,
        ttl=_IP_TTL,
        errors=_IP_RECVERR,
        address_at=4,
        address_bytes=4,
        asked=((_IP_RECVERR, 1), (_IP_RECVTTL, 1)),
        dont_fragment=((_IP_MTU_DISCOVER, _PROBE_MTU),),
    ),
    socket.AF_INET6: _Protocol(
        number=socket.IPPROTO_ICMPV6,
        request=128,
        reply=129,
        level=socket.IPPROTO_IPV6,
        ttl=socket.IPV6_HOPLIMIT,
        errors=_IPV6_RECVERR,
        address_at=8,
        address_bytes=16,
        asked=((_IPV6_RECVERR, 1), (socket.IPV6_RECVHOPLIMIT, 1)),
        dont_fragment=((_IPV6_MTU_DISCOVER, _PROBE_MTU), (_IPV6_DONTFRAG, 1)),
    ),
}
_HOP_LIMIT_OPTION = {socket.AF_INET: _IP_TTL, socket.AF_INET6: socket.IPV6_UNICAST_HOPS}


@dataclass(frozen=True, slots=True)
class Ping:
    """One echo request; addresses are ints of `family`."""

    source: int
    target: int
    family: int = socket.AF_INET
    device: str = ""
    """Interface that it must leave by, whatever the routes say; empty: as routed."""
    payload_bytes: int = 56
    """After the 8 bytes of ICMP header and the 20 (IPv6: 40) of IP."""
    dont_fragment: bool = False
    """Neither this host nor a router may cut it, and what this host believes of the path's MTU is ignored."""
    hop_limit: int = 64
    ifindex: int = 0
    """Zone of link-local IPv6 addresses."""


@dataclass(frozen=True, slots=True)
class PingResult:
    """What became of a ping."""

    ping: Ping
    outcome: Outcome
    rtt_ms: float | None = None
    hops: int | None = None
    """Routers on the way back, taking the first of 64, 128 and 255 as the TTL that the target began with."""
    mtu_bytes: int | None = None
    """For too-large: what would fit at the place where it stuck."""
    reported_by: int | None = None
    """Address of the router or host that sent an ICMP error; None: this host's own kernel."""
    reason: str = ""
    """The kernel's words for an outcome other than answered and silent."""


@dataclass(slots=True)
class _Flight:
    """A ping on its way."""

    ping: Ping
    protocol: _Protocol
    socket: socket.socket
    raw: bool
    identifier: int
    sent_at: float = 0.0


def ping(netns: Netns, pings: Sequence[Ping], timeout_seconds: float) -> tuple[PingResult, ...]:
    """Send all pings from `netns` at once; ends when each has an outcome, or after `timeout_seconds`.

    Holds one descriptor for each ping until then.

    Raises:
        NotPermitted: the process may open neither raw nor ping sockets.
    """
    echoes: dict[int, PingResult] = {}
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for place, asked in enumerate(pings):
            flight = _opened(netns, asked, stack)
            ended = _send(flight)
            if ended:
                echoes[place] = ended
            else:
                selector.register(flight.socket, selectors.EVENT_READ, (place, flight))
        _watch(selector, echoes, len(pings), timeout_seconds)
    return tuple(echoes.get(place, PingResult(asked, "silent")) for place, asked in enumerate(pings))


def _watch(
    selector: selectors.BaseSelector, echoes: dict[int, PingResult], wanted: int, timeout_seconds: float
) -> None:
    deadline = time.monotonic() + timeout_seconds
    while len(echoes) < wanted and (left_seconds := deadline - time.monotonic()) > 0:
        for key, _ in selector.select(left_seconds):
            place, flight = key.data
            ended = _outcome(flight)
            if ended:
                echoes[place] = ended
                selector.unregister(flight.socket)


def _opened(netns: Netns, asked: Ping, stack: ExitStack) -> _Flight:
    family = socket.AddressFamily(asked.family)
    protocol = _PROTOCOLS[family]
    try:
        ours, raw = open_socket(netns, family, socket.SOCK_RAW, protocol.number), True
    except NotPermitted:
        ours, raw = open_socket(netns, family, socket.SOCK_DGRAM, protocol.number), False
    stack.enter_context(ours)
    options = (*protocol.asked, (_HOP_LIMIT_OPTION[family], asked.hop_limit))
    for option, value in (*options, *(protocol.dont_fragment if asked.dont_fragment else ())):
        ours.setsockopt(protocol.level, option, value)
    return _Flight(asked, protocol, ours, raw, identifier=secrets.randbelow(_IDENTIFIERS))


def _send(flight: _Flight) -> PingResult | None:
    """Send it; return its outcome where this host refuses, else None."""
    asked, ours = flight.ping, flight.socket
    try:
        if asked.device:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, asked.device.encode())
        ours.bind(to_socket_address(asked.family, asked.source, asked.ifindex, port=0))
        ours.connect(to_socket_address(asked.family, asked.target, asked.ifindex, port=0))
    except OSError as error:
        return _refused(flight, error)
    if not flight.raw:  # the kernel chose the identifier, and shows it as the port
        flight.identifier = ours.getsockname()[1]
    request = _request(flight)
    for _ in range(_SEND_TRIES):
        try:
            flight.sent_at = time.monotonic()
            ours.send(request)
        except OSError as error:
            ended = _refused(flight, error)
            if ended:
                return ended
        else:
            return None
    return None


def _request(flight: _Flight) -> bytes:
    head = (flight.protocol.request, 0)
    tail = (flight.identifier, _SEQUENCE)
    payload = bytes(flight.ping.payload_bytes)
    return _HEADER.pack(*head, _checksum(_HEADER.pack(*head, 0, *tail) + payload), *tail) + payload


def _checksum(data: bytes) -> int:
    """RFC 1071. For ICMPv6 the kernel writes its own over it."""
    words = data + bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(words) // 2}H", words))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _outcome(flight: _Flight) -> PingResult | None:
    """Read one reply or error; None if it is not about this ping."""
    try:
        data, ancillary, _flags, _origin = flight.socket.recvmsg(_READ_BYTES, _ANCILLARY_BYTES)
    except OSError as error:
        return _refused(flight, None if isinstance(error, BlockingIOError) else error)
    if not _is_reply(flight, data):
        return None
    rtt_ms = (time.monotonic() - flight.sent_at) * 1e3
    return PingResult(flight.ping, "answered", rtt_ms=rtt_ms, hops=_hops(flight.protocol, ancillary))


def _is_reply(flight: _Flight, data: bytes) -> bool:
    with_ip_header = flight.raw and flight.ping.family == socket.AF_INET
    start = (data[0] & 0x0F) * 4 if with_ip_header and data else 0
    if len(data) < start + _HEADER.size:
        return False
    kind, _code, _sum, identifier, sequence = _HEADER.unpack_from(data, start)
    return (kind, identifier, sequence) == (flight.protocol.reply, flight.identifier, _SEQUENCE)


def _hops(protocol: _Protocol, ancillary: Sequence[tuple[int, int, bytes]]) -> int | None:
    for level, kind, data in ancillary:
        if (level, kind) == (protocol.level, protocol.ttl):
            ttl = int.from_bytes(data[:4], sys.byteorder)
            return next(first for first in _FIRST_TTLS if first >= ttl) - ttl
    return None


def _refused(flight: _Flight, error: OSError | None) -> PingResult | None:
    """Return what the error queue says of this ping, or else `error`; None if the queue speaks of others only.

    Errors about pings of another size to the same target arrive here too; `error` may then be one of theirs.
    """
    reports = tuple(_reports(flight))
    for identifier, echo in reports:
        if identifier in (None, flight.identifier):
            return echo
    if error is None or reports:
        return None
    return PingResult(flight.ping, _outcome_of(error.errno), reason=error.strerror or str(error))


def _reports(flight: _Flight) -> Iterator[tuple[int | None, PingResult]]:
    """Empty the error queue: the identifier of each request (None: this host refused it) and its outcome."""
    while True:
        try:
            data, ancillary, _flags, _to = flight.socket.recvmsg(_READ_BYTES, _ANCILLARY_BYTES, socket.MSG_ERRQUEUE)
        except BlockingIOError:
            return
        for level, kind, report in ancillary:
            if (level, kind) == (flight.protocol.level, flight.protocol.errors):
                yield _report(flight, data, report)


def _report(flight: _Flight, data: bytes, report: bytes) -> tuple[int | None, PingResult]:
    number, origin, kind, _code, _pad, info, _data = _EXTENDED_ERROR.unpack_from(report)
    outcome: Outcome = "expired" if (origin, kind) in _EXPIRED else _outcome_of(number)
    remote = origin in (_FROM_ICMP, _FROM_ICMP6)
    start = _EXTENDED_ERROR.size + flight.protocol.address_at
    address = int.from_bytes(report[start : start + flight.protocol.address_bytes], "big")
    identifier = _HEADER.unpack_from(data)[3] if remote and len(data) >= _HEADER.size else None
    return identifier, PingResult(
        flight.ping,
        outcome,
        mtu_bytes=info if outcome == "too-large" else None,
        reported_by=address if remote else None,
        reason=os.strerror(number),
    )


def _outcome_of(number: int | None) -> Outcome:
    return "too-large" if number == errno.EMSGSIZE else "unreachable"
