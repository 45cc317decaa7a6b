"""A simulated fabric under test: what the rates of flows are, not what anybody concludes from them.

Each flow is hashed by its ports and source port to an uplink of its leaf, and from the spine to one of the parallel
links of the other leaf. A link that is offered more than its capacity gives each flow the same share of what it wants
(proportional sharing). A fault lowers the capacity of a port, a leaf, a rail or a link. Directions are separate, and a
spread test is the mean of both. A sound test has 0.97 of the rate, each value has normal noise of 3 %, 1 % are lost.
"""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from trackbed.prove.links import UNTRACED, Trace
from trackbed.prove.rounds import FIRST_SOURCE_PORT, FLOWS, Round
from trackbed.prove.topology import FabricTopology

SOUND: Final = 0.97
NOISE: Final = 0.03
LOST: Final = 0.01
_MASK: Final = 0xFFFFFFFF


@dataclass(frozen=True)
class Faults:
    """Capacities below 1, by number; a link is leaf * links of a leaf + number of the link."""

    ports: Mapping[int, float] = field(default_factory=dict)
    leaves: Mapping[int, float] = field(default_factory=dict)
    rails: Mapping[int, float] = field(default_factory=dict)
    links: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Traffic:
    """A round's flows on their links, before any fault."""

    tests: Round
    ups: array[int]
    """Uplink of each flow; empty for spread tests, whose flows are hashed when they are needed."""
    downs: array[int]
    loads_up: Mapping[int, float]
    loads_down: Mapping[int, float]
    shares: array[float]
    """What the links of each test leave of its rate."""


class Network:
    """A topology with one hash function; `salt` chooses it."""

    def __init__(self, topology: FabricTopology, salt: int, *, traced: bool = True) -> None:
        self.topology, self._salt, self._traced = topology, salt * 0x27D4EB2F, traced
        self._members = topology.uplinks.links_per_leaf

    def prepare(self, tests: Round) -> Traffic:
        """Place the flows of a round on links."""
        ups, downs = array("i"), array("i")
        loads_up: dict[int, float] = {}
        loads_down: dict[int, float] = {}
        each = 1.0 if tests.source_ports else 1.0 / FLOWS
        for index in range(len(tests.a)):
            for up, down in self._iter_links(tests, index):
                if tests.source_ports:
                    ups.append(up)
                    downs.append(down)
                if up >= 0:
                    loads_up[up] = loads_up.get(up, 0.0) + each
                    loads_down[down] = loads_down.get(down, 0.0) + each
        empty = Traffic(tests, ups, downs, loads_up, loads_down, array("d"))
        shares = array("d", (self._compute_share(empty, index, {}) for index in range(len(tests.a))))
        return Traffic(tests, ups, downs, loads_up, loads_down, shares)

    def measure(self, traffic: Traffic, faults: Faults, chance: random.Random) -> array[float]:
        """Return the values of a round; NaN for a lost one."""
        tests, rails, leaf_of = traffic.tests, self.topology.rails, self.topology.leaf_of
        touched = {link // self._members for link in faults.links}
        gauss, values = chance.gauss, array("d")
        for index, (a, b, share) in enumerate(zip(tests.a, tests.b, traffic.shares, strict=True)):
            if touched and (leaf_of[a] in touched or leaf_of[b] in touched):
                share = self._compute_share(traffic, index, faults.links)  # noqa: PLW2901 - the share without faults
            ends = (faults.ports.get(a, 1.0), faults.ports.get(b, 1.0), faults.rails.get(a % rails, 1.0))
            leaves = (faults.leaves.get(leaf_of[a], 1.0), faults.leaves.get(leaf_of[b], 1.0))
            values.append(max(0.0, SOUND * share * min(*ends, *leaves) * gauss(1.0, NOISE)))
        for index in range(len(values)):
            if chance.random() < LOST:
                values[index] = math.nan
        return values

    def trace(self, request: Trace) -> array[float]:
        """Return the spine of each flow, as packets with a short time to live show it."""
        flows = zip(request.a, request.b, request.source_ports, strict=True)
        links = (self._hash(a, b, source_port)[0] % self._members for a, b, source_port in flows)
        return array("d", (link // self.topology.uplinks.links if self._traced else UNTRACED for link in links))

    def _iter_links(self, tests: Round, index: int) -> Iterator[tuple[int, int]]:
        a, b = tests.a[index], tests.b[index]
        if tests.source_ports:
            yield self._hash(a, b, tests.source_ports[index])
        elif self.topology.leaf_of[a] != self.topology.leaf_of[b]:
            for source_port in range(FIRST_SOURCE_PORT, FIRST_SOURCE_PORT + FLOWS):
                yield self._hash(a, b, source_port)
                yield self._hash(b, a, source_port)

    def _compute_share(self, traffic: Traffic, index: int, links: Mapping[int, float]) -> float:
        if traffic.ups:
            return _share(traffic, links, traffic.ups[index], traffic.downs[index])
        shares = [_share(traffic, links, up, down) for up, down in self._iter_links(traffic.tests, index)]
        return sum(shares) / len(shares) if shares else 1.0

    def _hash(self, a: int, b: int, source_port: int) -> tuple[int, int]:
        """Return the link by which a flow leaves the leaf of a, and the link by which it enters the leaf of b."""
        leaves, pods, links = self.topology.leaf_of, self.topology.pods, self.topology.uplinks.links
        if leaves[a] == leaves[b]:
            return -1, -1
        h = (a * 0x9E3779B1 ^ b * 0x85EBCA77 ^ source_port * 0xC2B2AE3D ^ self._salt) & _MASK
        h = (h ^ h >> 16) * 0x7FEB352D & _MASK
        h = (h ^ h >> 15) * 0x846CA68B & _MASK
        h ^= h >> 16
        up, second = h % self._members, h // self._members
        same_pod = pods[leaves[a]] == pods[leaves[b]]
        down = up // links * links + second % links if same_pod else second % self._members
        return leaves[a] * self._members + up, leaves[b] * self._members + down


def _share(traffic: Traffic, links: Mapping[int, float], up: int, down: int) -> float:
    if up < 0:
        return 1.0
    sent = links.get(up, 1.0) / traffic.loads_up[up]
    received = links.get(down, 1.0) / traffic.loads_down[down]
    return min(1.0, sent, received)
