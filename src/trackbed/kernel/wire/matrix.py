"""Reachability matrix: UDP between endpoints in many network namespaces, all held by this process.

For each ordered pair (a, b), a sends b a datagram. b records its source, the interface it arrived on and its TTL, and
replies to that source; a records the reply. Three outcomes tell faults apart: answered; received by b but the reply was
lost (the return path is broken); not received.

Each source keeps at most 4 datagrams in flight and starts with the endpoint after itself, so no destination gets more
than a few at once either: an unresolved neighbour queues 101 packets (unres_qlen) and drops the rest. (Measured with 96
endpoints: 1 to 16 in flight take the same 0.35 s; 64 lose datagrams.) A datagram without reply for 20 ms no longer
counts as in flight, so that dead pairs do not delay the others.

There are three rounds. Each asks every unanswered pair, and ends when nothing was sent and nothing arrived for a third
of the silence that the caller allows. So the time grows with the number of pairs, and every pair is asked unless the
caller's limit ends the measurement, or an endpoint has no socket.
"""

from __future__ import annotations

import math
import os
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product

from trackbed.kernel.wire.addresses import SocketAddress, parse_address, to_socket_address
from trackbed.kernel.wire.errors import ProbeError
from trackbed.kernel.wire.netns_sockets import Netns, open_socket

INITIAL_TTL = 64
"""TTL or hop limit of every datagram sent (RFC 1700's default)."""

_IN_FLIGHT = 4
_FLIGHT_SECONDS = 0.02
_ROUNDS = 3
_TOKEN_BYTES = 8
_DATAGRAM = struct.Struct(f"!{_TOKEN_BYTES}sBI")  # token of this run, question or answer, number of the pair
_INT = struct.Struct("i")
_QUESTION, _ANSWER = range(2)
_ANCILLARY_BYTES = 128
_DATAGRAMS_AT_ONCE = 64  # before another socket is read

# include/uapi/linux/in.h; the socket module of Python 3.11 lacks these
_IP_TTL, _IP_PKTINFO, _IP_RECVTTL = 2, 8, 12
_OPTIONS = {
    socket.AF_INET: (
        (socket.IPPROTO_IP, _IP_PKTINFO, 1),
        (socket.IPPROTO_IP, _IP_RECVTTL, 1),
        (socket.IPPROTO_IP, _IP_TTL, INITIAL_TTL),
    ),
    socket.AF_INET6: (
        (socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1),
        (socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1),
        (socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, INITIAL_TTL),
    ),
}
_IFINDEX_AT = {(socket.IPPROTO_IP, _IP_PKTINFO): 0, (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO): 16}
_TTL_IN = ((socket.IPPROTO_IP, _IP_TTL), (socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT))

_Ancillary = list[tuple[int, int, bytes]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address of an interface in a namespace."""

    label: str
    netns: Netns
    ifindex: int
    address: int
    family: int = socket.AF_INET


@dataclass(frozen=True, slots=True)
class PairResult:
    """Result of the datagram from one endpoint to another; `source` and `target` are labels."""

    source: str
    target: str
    tested: bool
    """Whether a datagram was handed to the kernel; if not, nothing is known of the pair."""
    answered: bool
    seen_source: int | None
    """Source address that the receiver saw (None: it received nothing). It differs from the sender's after NAT."""
    arrived_ifindex: int | None
    """Interface of the receiver on which the datagram arrived."""
    hops: int | None
    """Routers on the forward path."""
    rtt_us: float | None
    """Microseconds until the reply was read; includes the processing of other pairs."""
    error: str
    """Text of a socket or send error; empty otherwise."""


@dataclass(slots=True)
class _Station:
    """An endpoint with its socket, the pairs (by number) still to send, and those in flight."""

    endpoint: Endpoint
    socket: socket.socket
    address: SocketAddress
    queue: deque[int] = field(default_factory=deque)
    in_flight: deque[int] = field(default_factory=deque)


@dataclass(slots=True)
class _Pair:
    """State of one ordered pair; source and target are indexes in the list of endpoints."""

    source: int
    target: int
    error: str = ""
    sent_at: float = 0.0
    answered: bool = False
    seen_source: int | None = None
    arrived_ifindex: int | None = None
    hops: int | None = None
    rtt_us: float | None = None


def measure(
    endpoints: Sequence[Endpoint], silence_seconds: float, limit_seconds: float = math.inf
) -> tuple[PairResult, ...]:
    """Probe every ordered pair of endpoints of one family.

    Return when all have answered, or after `silence_seconds` in all without anything sent or received. After
    `limit_seconds` pairs that were not asked yet are left out (`tested`).

    Holds one descriptor for each endpoint. An endpoint whose address is not in its namespace fails its own pairs only,
    with an error.
    """
    with ExitStack() as stack:
        stations, errors = _open_stations(endpoints, stack)
        pairs = tuple(_iter_pairs(endpoints, errors))
        _Exchange(stations, pairs, stack.enter_context(selectors.DefaultSelector())).run(
            silence_seconds / _ROUNDS, time.monotonic() + limit_seconds
        )
    return tuple(_build_result(endpoints, pair) for pair in pairs)


def _open_stations(endpoints: Sequence[Endpoint], stack: ExitStack) -> tuple[dict[int, _Station], dict[int, str]]:
    """Open the sockets; return stations and errors by index in the list of endpoints."""
    stations, errors = {}, {}
    for index, endpoint in enumerate(endpoints):
        try:
            stations[index] = _open_station(endpoint, stack)
        except (OSError, ProbeError) as exception:
            errors[index] = f"{endpoint.label}: no socket on its address: {exception}"
    return stations, errors


def _open_station(endpoint: Endpoint, stack: ExitStack) -> _Station:
    udp_socket = stack.enter_context(open_socket(endpoint.netns, endpoint.family, socket.SOCK_DGRAM, 0))
    for option in _OPTIONS[socket.AddressFamily(endpoint.family)]:
        udp_socket.setsockopt(*option)
    address = endpoint.family, endpoint.address, endpoint.ifindex
    udp_socket.bind(to_socket_address(*address, port=0))
    return _Station(endpoint, udp_socket, to_socket_address(*address, port=udp_socket.getsockname()[1]))


def _iter_pairs(endpoints: Sequence[Endpoint], errors: Mapping[int, str]) -> Iterator[_Pair]:
    count = len(endpoints)
    for source, distance in product(range(count), range(1, count)):
        target = (source + distance) % count
        if endpoints[source].family == endpoints[target].family:
            yield _Pair(source, target, error=errors.get(source) or errors.get(target, ""))


class _Exchange:
    """Sends, replies and records until all pairs have answered or the others stay silent."""

    def __init__(
        self, stations: Mapping[int, _Station], pairs: Sequence[_Pair], selector: selectors.BaseSelector
    ) -> None:
        self._stations = stations
        self._pairs = pairs
        self._selector = selector
        self._token = os.urandom(_TOKEN_BYTES)
        self._unanswered = {
            number for number, pair in enumerate(pairs) if pair.source in stations and pair.target in stations
        }
        for index, station in stations.items():
            selector.register(station.socket, selectors.EVENT_READ, index)

    def run(self, quiet_seconds: float, deadline: float) -> None:
        """Run all rounds; each ends `quiet_seconds` after the last datagram, all of them at the deadline."""
        for _ in range(_ROUNDS):
            self._queue_unanswered()
            self._run_round(quiet_seconds, deadline)

    def _queue_unanswered(self) -> None:
        for station in self._stations.values():
            station.queue.clear()
        for number in sorted(self._unanswered):
            self._stations[self._pairs[number].source].queue.append(number)

    def _run_round(self, quiet_seconds: float, deadline: float) -> None:
        ends_at = now = time.monotonic()
        while self._unanswered and now < deadline:
            for station in self._stations.values():
                self._send_questions(station)
            backlog = any(station.queue for station in self._stations.values())
            ready = self._selector.select(_FLIGHT_SECONDS if backlog else max(0.0, ends_at - now))
            for key, _ in ready:
                self._receive_datagrams(key.data)
            now = time.monotonic()
            if backlog or ready:
                ends_at = min(now + quiet_seconds, deadline)
            elif now >= ends_at:
                return

    def _send_questions(self, station: _Station) -> None:
        while station.in_flight and self._is_answered_or_expired(station.in_flight[0]):
            station.in_flight.popleft()
        while station.queue and len(station.in_flight) < _IN_FLIGHT:
            number = station.queue.popleft()
            pair = self._pairs[number]
            pair.sent_at = time.monotonic()
            pair.error = self._send_datagram(station, self._stations[pair.target].address, _QUESTION, number)
            station.in_flight.append(number)

    def _is_answered_or_expired(self, number: int) -> bool:
        return number not in self._unanswered or time.monotonic() - self._pairs[number].sent_at > _FLIGHT_SECONDS

    def _send_datagram(self, station: _Station, address: SocketAddress, message_type: int, number: int) -> str:
        """Send a datagram; return the error, or an empty text."""
        try:
            station.socket.sendto(_DATAGRAM.pack(self._token, message_type, number), address)
        except OSError as error:
            return f"{station.endpoint.label}: cannot send: {error.strerror}"
        return ""

    def _receive_datagrams(self, index: int) -> None:
        for _ in range(_DATAGRAMS_AT_ONCE):
            try:
                payload, ancillary, _flags, origin = self._stations[index].socket.recvmsg(
                    _DATAGRAM.size + 1, _ANCILLARY_BYTES
                )
            except BlockingIOError:
                return
            if len(payload) == _DATAGRAM.size:
                self._handle_datagram(index, payload, ancillary, origin)

    def _handle_datagram(self, index: int, payload: bytes, ancillary: _Ancillary, origin: SocketAddress) -> None:
        token, message_type, number = _DATAGRAM.unpack(payload)
        if token != self._token or number >= len(self._pairs):  # from another program or an earlier run
            return
        pair = self._pairs[number]
        if message_type == _QUESTION and index == pair.target:
            station = self._stations[index]
            _record_arrival(pair, station.endpoint.family, ancillary, origin)
            pair.error = self._send_datagram(station, origin, _ANSWER, number)
        elif message_type == _ANSWER and index == pair.source and number in self._unanswered:
            self._unanswered.remove(number)
            pair.answered, pair.rtt_us = True, (time.monotonic() - pair.sent_at) * 1e6


def _record_arrival(pair: _Pair, family: int, ancillary: _Ancillary, origin: SocketAddress) -> None:
    pair.seen_source = parse_address(family, origin[0])
    for level, message_type, data in ancillary:
        if (level, message_type) in _IFINDEX_AT:
            (pair.arrived_ifindex,) = _INT.unpack_from(data, _IFINDEX_AT[level, message_type])
        elif (level, message_type) in _TTL_IN:
            pair.hops = INITIAL_TTL - _INT.unpack_from(data)[0]


def _build_result(endpoints: Sequence[Endpoint], pair: _Pair) -> PairResult:
    return PairResult(
        source=endpoints[pair.source].label,
        target=endpoints[pair.target].label,
        tested=pair.sent_at > 0,
        answered=pair.answered,
        seen_source=pair.seen_source,
        arrived_ifindex=pair.arrived_ifindex,
        hops=pair.hops,
        rtt_us=pair.rtt_us,
        error=pair.error,
    )
