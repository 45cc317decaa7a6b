"""Forwarding of frames between the ports of a lab, by the segments of its rails and the router that joins them."""

import heapq
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from trackbed_lab.vm.leaves import CablePort, Leaves, SwitchSettings
from trackbed_lab.vm.router import Router, build_gateway_mac

ROUTER = -1
"""Number of the router in every segment."""
RESERVED = bytes.fromhex("0180c20000")
_HEADER = 14
_MAX_ADDRESSES = 1 << 14
"""Limit of learned addresses for each segment, as servers can send from any number of addresses."""

SendFrame = Callable[[bytes], None]
"""Sends a frame to a port of a server."""
Source = tuple[int, int, bytes]
"""Rail, server and MAC address of a sender."""


@dataclass(slots=True)
class Segment:
    """One rail, or the cluster's network: the servers that are plugged in, and the server of each learned address."""

    servers: Collection[int]
    server_by_mac: dict[bytes, int] = field(default_factory=dict)

    def learn(self, server: int, frame: bytes) -> None:
        """Learn the address of a frame's sender."""
        source = frame[6:12]
        if not source[0] & 1 and (source in self.server_by_mac or len(self.server_by_mac) < _MAX_ADDRESSES):
            self.server_by_mac[source] = server

    def find_targets(self, server: int, frame: bytes) -> list[int]:
        """Return the servers that a frame of `server` goes to."""
        target = frame[:6]
        learned = None if target[0] & 1 else self.server_by_mac.get(target)
        if learned is None:
            return [number for number in self.servers if number != server]
        return [learned] if learned != server else []


class _Entry(NamedTuple):
    """Where a frame is: the port that sent it, the segment it is in, by a server or the router, and since when."""

    port: CablePort
    segment: int
    server: int
    seconds: float


@dataclass(slots=True)
class Forwarding:
    """All segments, rails first, the router, the leaves, and the senders whose frames are dropped."""

    ports: Mapping[CablePort, SendFrame]
    """The ports of all servers; the cluster's network is the last rail."""
    router: Router
    leaves: Leaves
    refused: set[Source] = field(default_factory=set)
    _segments: dict[int, Segment] = field(default_factory=dict, init=False)
    _plugs: dict[tuple[int, int], CablePort] = field(default_factory=dict, init=False)
    """The port of each segment and server."""
    _waiting: list[tuple[float, int, CablePort, bytes]] = field(default_factory=list, init=False)
    """Frames that arrive later: a heap by time, then by order."""
    _count: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Plug all cables in."""
        self.apply_settings(self.leaves.settings)

    def apply_settings(self, settings: SwitchSettings) -> None:
        """Change what the leaves do; they forget the addresses that they learned."""
        self.leaves.settings = settings
        self._plugs = {(self._find_segment(port), port.server): port for port in self.ports}
        self._segments = {
            number: Segment(tuple(server for segment, server in self._plugs if segment == number))
            for number in {segment for segment, _ in self._plugs}
        }

    def _find_segment(self, port: CablePort) -> int:
        return self.leaves.find_rail(port) if self._is_rail(port.rail) else port.rail

    def _is_rail(self, number: int) -> bool:
        return number < self.leaves.shape.rails

    def list_plugged(self, segment: int) -> list[tuple[int, SendFrame]]:
        """Return the servers that are plugged into a segment, each with its port."""
        return [(server, self.ports[port]) for (number, server), port in self._plugs.items() if number == segment]

    def handle_frame(self, port: CablePort, frame: bytes, now: float) -> None:
        """Forward or route a frame that a port has sent at `now`."""
        if len(frame) < _HEADER or (port.rail, port.server, frame[6:12]) in self.refused:
            return
        if frame[:5] == RESERVED:
            return  # reserved addresses are not forwarded (IEEE 802.1Q, 8.6.3)
        if self._is_rail(port.rail) and not self.leaves.accepts(port, len(frame)):
            return
        number = self._find_segment(port)
        self._segments[number].learn(port.server, frame)
        routed = number < len(self.router.gateways)
        entered = self.leaves.enter(port, len(frame), now) if self._is_rail(port.rail) else now
        if entered is None:
            return
        if not (routed and frame[:6] == build_gateway_mac(number)):
            self._forward(_Entry(port, number, port.server, entered), frame, now)
        if routed:
            for rail, output in self.router.handle_frame(number, frame):
                self._forward(_Entry(port, rail, ROUTER, entered), output, now)

    def _forward(self, entry: _Entry, frame: bytes, now: float) -> None:
        """Send a frame to the ports that it is for, now or when its links are free."""
        for server in self._segments[entry.segment].find_targets(entry.server, frame):
            target = self._plugs[entry.segment, server]
            arrival: float | None = now
            if self._is_rail(target.rail):
                if not self.leaves.accepts(target, len(frame)):
                    continue
                arrival = self.leaves.leave(entry.port, target, len(frame), now)
            if arrival is not None:
                self._count += 1
                heapq.heappush(self._waiting, (max(arrival, entry.seconds), self._count, target, frame))
        self.deliver_waiting(now)

    def deliver_waiting(self, now: float) -> float | None:
        """Send the frames that arrive until `now`; return how many seconds later the next one arrives, if one waits."""
        while self._waiting and self._waiting[0][0] <= now:
            _, _, target, frame = heapq.heappop(self._waiting)
            self.ports[target](frame)
        return self._waiting[0][0] - now if self._waiting else None
