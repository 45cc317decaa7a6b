"""Reachability, hop count and path MTU by ICMP echo (RFC 792, RFC 4443, RFC 1191).

Each ping has its own socket, connected to its target. The kernel then delivers only replies of that target and, through
the error queue (IP_RECVERR, ip(7)), errors about the ping's own packet, so no replies have to be matched to pings. It
is a raw socket if the process may open one (CAP_NET_RAW), else a ping socket, if net.ipv4.ping_group_range allows it.
"""

from __future__ import annotations

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
"""too-large: the packet exceeds an MTU and must not be fragmented; expired: its TTL reached 0 on the path."""

_HEADER = struct.Struct("!BBHHH")  # type, code, checksum, identifier, sequence number
_SEQUENCE = 1
_SEND_TRIES = 2  # the first may fail with a pending error of another ping
_IDENTIFIERS = 1 << 16
_INITIAL_TTLS = (64, 128, 255)  # initial TTLs of Linux, Windows and routers

# include/uapi/linux/{in,in6,icmp,icmpv6,errqueue}.h; the socket module of Python 3.11 lacks some constants
_IP_TTL, _IP_MTU_DISCOVER, _IP_RECVERR, _IP_RECVTTL, _PROBE_MTU = 2, 10, 11, 12, 3
_IPV6_MTU_DISCOVER, _IPV6_RECVERR, _IPV6_DONTFRAG = 23, 25, 62
_EXTENDED_ERROR = struct.Struct("=IBBBBII")  # errno, origin, type, code, padding, info, data; then a sockaddr
_FROM_ICMP, _FROM_ICMP6 = 2, 3
_EXPIRED = ((_FROM_ICMP, 11), (_FROM_ICMP6, 3))
_ANCILLARY_BYTES = 512
_READ_BYTES = 1 << 16


class _Protocol(NamedTuple):
    """Differences between ICMP and ICMPv6."""

    number: int
    request: int
    reply: int
    level: int
    ttl: int
    errors: int
    address_at: int  # in struct sockaddr_in and sockaddr_in6
    address_bytes: int
    socket_options: tuple[tuple[int, int], ...]  # always set
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
        socket_options=((_IP_RECVERR, 1), (_IP_RECVTTL, 1)),
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
        socket_options=((_IPV6_RECVERR, 1), (socket.IPV6_RECVHOPLIMIT, 1)),
        dont_fragment=((_IPV6_MTU_DISCOVER, _PROBE_MTU), (_IPV6_DONTFRAG, 1)),
    ),
}
_HOP_LIMIT_OPTION = {socket.AF_INET: _IP_TTL, socket.AF_INET6: socket.IPV6_UNICAST_HOPS}


@dataclass(frozen=True)
class Ping:
    """An echo request; addresses are ints of `family`."""

    source: int
    target: int
    family: int = socket.AF_INET
    device: str = ""
    """Outgoing interface, which overrides the routes; empty: the kernel routes the packet."""
    payload_bytes: int = 56
    """Bytes of payload after the ICMP header (8 bytes) and the IP header (20 bytes, IPv6: 40)."""
    dont_fragment: bool = False
    """Neither this host nor a router may fragment the packet, and the cached path MTU is ignored."""
    hop_limit: int = 64
    ifindex: int = 0
    """Zone of link-local IPv6 addresses."""


@dataclass(frozen=True)
class PingResult:
    """Result of one ping."""

    ping: Ping
    outcome: Outcome
    rtt_ms: float | None = None
    hops: int | None = None
    """Routers on the return path, assuming an initial TTL of 64, 128 or 255."""
    mtu_bytes: int | None = None
    """For too-large: MTU of the link that the packet did not fit."""
    reported_by: int | None = None
    """Address of the router or host that sent an ICMP error; None: this host's own kernel."""
    reason: str = ""
    """Text of the errno; empty for the outcomes answered and silent."""


@dataclass
class _PendingPing:
    """A ping that has been sent and has no result yet."""

    ping: Ping
    protocol: _Protocol
    socket: socket.socket
    raw: bool
    identifier: int
    sent_at: float = 0.0


def ping(netns: Netns, pings: Sequence[Ping], timeout_seconds: float) -> tuple[PingResult, ...]:
    """Send all pings from `netns` at once. Return when each ping has a result, or after `timeout_seconds`.

    Holds one descriptor for each ping until then.

    Raises:
        NotPermitted: the process may open neither raw nor ping sockets.
    """
    results: dict[int, PingResult] = {}
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for index, request in enumerate(pings):
            flight = _open_pending(netns, request, stack)
            ended = _send_ping(flight)
            if ended:
                results[index] = ended
            else:
                selector.register(flight.socket, selectors.EVENT_READ, (index, flight))
        _collect_results(selector, results, len(pings), timeout_seconds)
    return tuple(results.get(index, PingResult(request, "silent")) for index, request in enumerate(pings))


def _collect_results(
    selector: selectors.BaseSelector, results: dict[int, PingResult], count: int, timeout_seconds: float
) -> None:
    deadline = time.monotonic() + timeout_seconds
    while len(results) < count and (left_seconds := deadline - time.monotonic()) > 0:
        for key, _ in selector.select(left_seconds):
            index, pending = key.data
            result = _read_result(pending)
            if result:
                results[index] = result
                selector.unregister(pending.socket)


def _open_pending(netns: Netns, request: Ping, stack: ExitStack) -> _PendingPing:
    family = socket.AddressFamily(request.family)
    protocol = _PROTOCOLS[family]
    try:
        icmp_socket, raw = open_socket(netns, family, socket.SOCK_RAW, protocol.number), True
    except NotPermitted:
        icmp_socket, raw = open_socket(netns, family, socket.SOCK_DGRAM, protocol.number), False
    stack.enter_context(icmp_socket)
    options = (*protocol.socket_options, (_HOP_LIMIT_OPTION[family], request.hop_limit))
    for option, value in (*options, *(protocol.dont_fragment if request.dont_fragment else ())):
        icmp_socket.setsockopt(protocol.level, option, value)
    return _PendingPing(request, protocol, icmp_socket, raw, identifier=secrets.randbelow(_IDENTIFIERS))


def _send_ping(pending: _PendingPing) -> PingResult | None:
    """Send a ping; return its result if this host refuses to send it, else None."""
    request, icmp_socket = pending.ping, pending.socket
    try:
        if request.device:
            icmp_socket.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, request.device.encode())
        icmp_socket.bind(to_socket_address(request.family, request.source, request.ifindex, port=0))
        icmp_socket.connect(to_socket_address(request.family, request.target, request.ifindex, port=0))
    except OSError as error:
        return _read_error(pending, error)
    if not pending.raw:  # the kernel chose the identifier and reports it as the port
        pending.identifier = icmp_socket.getsockname()[1]
    packet = _build_echo_request(pending)
    for _ in range(_SEND_TRIES):
        try:
            pending.sent_at = time.monotonic()
            icmp_socket.send(packet)
        except OSError as error:
            result = _read_error(pending, error)
            if result:
                return result
        else:
            return None
    return None


def _build_echo_request(pending: _PendingPing) -> bytes:
    type_and_code = (pending.protocol.request, 0)
    identifiers = (pending.identifier, _SEQUENCE)
    payload = bytes(pending.ping.payload_bytes)
    return (
        _HEADER.pack(
            *type_and_code, _compute_checksum(_HEADER.pack(*type_and_code, 0, *identifiers) + payload), *identifiers
        )
        + payload
    )


def _compute_checksum(data: bytes) -> int:
    """Return the checksum of RFC 1071. For ICMPv6 the kernel replaces it."""
    padded = data + bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _read_result(pending: _PendingPing) -> PingResult | None:
    """Read a reply or an error; None if it does not belong to this ping."""
    try:
        data, ancillary, _flags, _origin = pending.socket.recvmsg(_READ_BYTES, _ANCILLARY_BYTES)
    except OSError as error:
        return _read_error(pending, None if isinstance(error, BlockingIOError) else error)
    if not _is_reply(pending, data):
        return None
    rtt_ms = (time.monotonic() - pending.sent_at) * 1e3
    return PingResult(pending.ping, "answered", rtt_ms=rtt_ms, hops=_count_hops(pending.protocol, ancillary))


def _is_reply(pending: _PendingPing, datagram: bytes) -> bool:
    with_ip_header = pending.raw and pending.ping.family == socket.AF_INET
    start = (datagram[0] & 0x0F) * 4 if with_ip_header and datagram else 0
    if len(datagram) < start + _HEADER.size:
        return False
    message_type, _code, _sum, identifier, sequence = _HEADER.unpack_from(datagram, start)
    return (message_type, identifier, sequence) == (pending.protocol.reply, pending.identifier, _SEQUENCE)


def _count_hops(protocol: _Protocol, ancillary: Sequence[tuple[int, int, bytes]]) -> int | None:
    for level, message_type, data in ancillary:
        if (level, message_type) == (protocol.level, protocol.ttl):
            ttl = int.from_bytes(data[:4], sys.byteorder)
            return next(first for first in _INITIAL_TTLS if first >= ttl) - ttl
    return None


def _read_error(pending: _PendingPing, error: OSError | None) -> PingResult | None:
    """Return the result in the error queue, or else one for `error`; None if the queue holds other pings' errors.

    Errors about pings of another size to the same target arrive here too, and `error` may be one of those.
    """
    reports = tuple(_iter_error_reports(pending))
    for identifier, result in reports:
        if identifier in (None, pending.identifier):
            return result
    if error is None or reports:
        return None
    return PingResult(pending.ping, _classify_errno(error.errno), reason=error.strerror or str(error))


def _iter_error_reports(pending: _PendingPing) -> Iterator[tuple[int | None, PingResult]]:
    """Drain the error queue: yield the identifier of each request (None: this host refused it) and its result."""
    while True:
        try:
            datagram, ancillary, _flags, _to = pending.socket.recvmsg(
                _READ_BYTES, _ANCILLARY_BYTES, socket.MSG_ERRQUEUE
            )
        except BlockingIOError:
            return
        for level, message_type, report in ancillary:
            if (level, message_type) == (pending.protocol.level, pending.protocol.errors):
                yield _parse_error_report(pending, datagram, report)


def _parse_error_report(pending: _PendingPing, datagram: bytes, report: bytes) -> tuple[int | None, PingResult]:
    error_number, origin, icmp_type, _code, _pad, info, _data = _EXTENDED_ERROR.unpack_from(report)
    outcome: Outcome = "expired" if (origin, icmp_type) in _EXPIRED else _classify_errno(error_number)
    remote = origin in (_FROM_ICMP, _FROM_ICMP6)
    start = _EXTENDED_ERROR.size + pending.protocol.address_at
    address = int.from_bytes(report[start : start + pending.protocol.address_bytes], "big")
    identifier = _HEADER.unpack_from(datagram)[3] if remote and len(datagram) >= _HEADER.size else None
    return identifier, PingResult(
        pending.ping,
        outcome,
        mtu_bytes=info if outcome == "too-large" else None,
        reported_by=address if remote else None,
        reason=os.strerror(error_number),
    )


def _classify_errno(error_number: int | None) -> Outcome:
    return "too-large" if error_number == errno.EMSGSIZE else "unreachable"
