"""Who reaches whom: UDP between endpoints that live in many network namespaces, all held by this one process.

For each ordered pair (a, b), a sends b a datagram; b notes the source it saw, the interface it came in by and its TTL,
and answers to that source; a notes the answer. So three outcomes tell faults apart: answered; seen by b but the answer
was lost (the way back is broken); not seen.

Each source keeps at most 4 datagrams on the way, and begins with the endpoint after itself, so that no destination gets
more than a few at once either: a neighbour that is still being resolved queues 101 packets (unres_qlen) and drops the
rest. (Measured with 96 endpoints: 1 to 16 on the way take the same 0.35 s; 64 lose datagrams.) What is silent for 20 ms
no longer counts as on the way, so that dead pairs do not hold up the others. Unanswered pairs are asked again after one
third and two thirds of the time.
"""

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
_DATAGRAMS_AT_ONCE = 64  # then the others have their turn

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
    """An address that an interface in a namespace holds."""

    label: str
    netns: Netns
    ifindex: int
    address: int
    family: int = socket.AF_INET


@dataclass(frozen=True, slots=True)
class PairResult:
    """What became of the datagram from one endpoint to another; both are labels."""

    source: str
    target: str
    answered: bool
    seen_source: int | None
    """Source address that the receiver saw; None: it saw nothing. Other than the sender's: translated on the way."""
    arrived_ifindex: int | None
    """Interface of the receiver that the datagram came in by."""
    hops: int | None
    """Routers on the way there."""
    rtt_us: float | None
    """Microseconds until the answer was read; other pairs' work is in it."""
    error: str
    """What the kernel said when a socket could not be opened or a datagram not be sent; empty otherwise."""


@dataclass(slots=True)
class _Station:
    """An endpoint with its socket, the pairs (by number) it has yet to ask, and those it asked a moment ago."""

    endpoint: Endpoint
    socket: socket.socket
    address: SocketAddress
    asking: deque[int] = field(default_factory=deque)
    flying: deque[int] = field(default_factory=deque)


@dataclass(slots=True)
class _Pair:
    """What is known so far of one ordered pair; source and target are places in the list of endpoints."""

    source: int
    target: int
    trouble: str = ""
    sent_at: float = 0.0
    answered: bool = False
    seen_source: int | None = None
    arrived_ifindex: int | None = None
    hops: int | None = None
    rtt_us: float | None = None


def measure(endpoints: Sequence[Endpoint], timeout_seconds: float) -> tuple[PairResult, ...]:
    """Try every ordered pair of endpoints of one family; ends when all have answered, or after `timeout_seconds`.

    Holds one descriptor for each endpoint. An endpoint whose address is not in its namespace spoils its own pairs only,
    and these say so.
    """
    with ExitStack() as stack:
        stations, troubles = _stations(endpoints, stack)
        pairs = tuple(_pairs(endpoints, troubles))
        _Exchange(stations, pairs, stack.enter_context(selectors.DefaultSelector())).run(timeout_seconds)
    return tuple(_reach(endpoints, pair) for pair in pairs)


def _stations(endpoints: Sequence[Endpoint], stack: ExitStack) -> tuple[dict[int, _Station], dict[int, str]]:
    """Open what can be opened; both results are by place in the list of endpoints."""
    stations, troubles = {}, {}
    for place, endpoint in enumerate(endpoints):
        try:
            stations[place] = _station(endpoint, stack)
        except (OSError, ProbeError) as error:
            troubles[place] = f"{endpoint.label}: no socket on its address: {error}"
    return stations, troubles


def _station(endpoint: Endpoint, stack: ExitStack) -> _Station:
    opened_socket = stack.enter_context(open_socket(endpoint.netns, endpoint.family, socket.SOCK_DGRAM, 0))
    for option in _OPTIONS[socket.AddressFamily(endpoint.family)]:
        opened_socket.setsockopt(*option)
    where = endpoint.family, endpoint.address, endpoint.ifindex
    opened_socket.bind(to_socket_address(*where, port=0))
    return _Station(endpoint, opened_socket, to_socket_address(*where, port=opened_socket.getsockname()[1]))


def _pairs(endpoints: Sequence[Endpoint], troubles: Mapping[int, str]) -> Iterator[_Pair]:
    count = len(endpoints)
    for source, step in product(range(count), range(1, count)):
        target = (source + step) % count
        if endpoints[source].family == endpoints[target].family:
            yield _Pair(source, target, trouble=troubles.get(source) or troubles.get(target, ""))


class _Exchange:
    """Asks, answers and notes, until all pairs have answered or the time is up."""

    def __init__(
        self, stations: Mapping[int, _Station], pairs: Sequence[_Pair], selector: selectors.BaseSelector
    ) -> None:
        self._stations = stations
        self._pairs = pairs
        self._selector = selector
        self._token = os.urandom(_TOKEN_BYTES)
        self._unanswered = {n for n, pair in enumerate(pairs) if pair.source in stations and pair.target in stations}
        for place, station in stations.items():
            selector.register(station.socket, selectors.EVENT_READ, place)

    def run(self, timeout_seconds: float) -> None:
        started = time.monotonic()
        for number in range(1, _ROUNDS + 1):
            self._queue_unanswered()
            self._exchange_until(started + timeout_seconds * number / _ROUNDS)

    def _queue_unanswered(self) -> None:
        for station in self._stations.values():
            station.asking.clear()
        for number in sorted(self._unanswered):
            self._stations[self._pairs[number].source].asking.append(number)

    def _exchange_until(self, deadline: float) -> None:
        while self._unanswered and (left_seconds := deadline - time.monotonic()) > 0:
            for station in self._stations.values():
                self._ask(station)
            backlog = any(station.asking for station in self._stations.values())
            for key, _ in self._selector.select(min(left_seconds, _FLIGHT_SECONDS) if backlog else left_seconds):
                self._receive(key.data)

    def _ask(self, station: _Station) -> None:
        while station.flying and self._has_landed(station.flying[0]):
            station.flying.popleft()
        while station.asking and len(station.flying) < _IN_FLIGHT:
            number = station.asking.popleft()
            pair = self._pairs[number]
            pair.sent_at = time.monotonic()
            pair.trouble = self._send(station, self._stations[pair.target].address, _QUESTION, number)
            station.flying.append(number)

    def _has_landed(self, number: int) -> bool:
        return number not in self._unanswered or time.monotonic() - self._pairs[number].sent_at > _FLIGHT_SECONDS

    def _send(self, station: _Station, to: SocketAddress, kind: int, number: int) -> str:
        """Return what went wrong, or nothing."""
        try:
            station.socket.sendto(_DATAGRAM.pack(self._token, kind, number), to)
        except OSError as error:
            return f"{station.endpoint.label}: cannot send: {error.strerror}"
        return ""

    def _receive(self, place: int) -> None:
        for _ in range(_DATAGRAMS_AT_ONCE):
            try:
                payload, ancillary, _flags, origin = self._stations[place].socket.recvmsg(
                    _DATAGRAM.size + 1, _ANCILLARY_BYTES
                )
            except BlockingIOError:
                return
            if len(payload) == _DATAGRAM.size:
                self._judge(place, payload, ancillary, origin)

    def _judge(self, place: int, payload: bytes, ancillary: _Ancillary, origin: SocketAddress) -> None:
        token, kind, number = _DATAGRAM.unpack(payload)
        if token != self._token or number >= len(self._pairs):  # a stranger's, or an earlier run's
            return
        pair = self._pairs[number]
        if kind == _QUESTION and place == pair.target:
            station = self._stations[place]
            _note_question(pair, station.endpoint.family, ancillary, origin)
            pair.trouble = self._send(station, origin, _ANSWER, number)
        elif kind == _ANSWER and place == pair.source and number in self._unanswered:
            self._unanswered.remove(number)
            pair.answered, pair.rtt_us = True, (time.monotonic() - pair.sent_at) * 1e6


def _note_question(pair: _Pair, family: int, ancillary: _Ancillary, origin: SocketAddress) -> None:
    pair.seen_source = parse_address(family, origin[0])
    for level, kind, data in ancillary:
        if (level, kind) in _IFINDEX_AT:
            (pair.arrived_ifindex,) = _INT.unpack_from(data, _IFINDEX_AT[level, kind])
        elif (level, kind) in _TTL_IN:
            pair.hops = INITIAL_TTL - _INT.unpack_from(data)[0]


def _reach(endpoints: Sequence[Endpoint], pair: _Pair) -> PairResult:
    return PairResult(
        source=endpoints[pair.source].label,
        target=endpoints[pair.target].label,
        answered=pair.answered,
        seen_source=pair.seen_source,
        arrived_ifindex=pair.arrived_ifindex,
        hops=pair.hops,
        rtt_us=pair.rtt_us,
        error=pair.trouble,
    )
