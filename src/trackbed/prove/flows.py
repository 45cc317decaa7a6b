"""Single flows of a cover: which of them stay low alone.

Two flows of the full rate on one link look like a fault. A flow that was once at its rate shows that each link on its
path is sound, because a collision can only lower a value. The others are repeated with the same source port, so with
the same path: twice among fewer and other flows, then with no other flow on their leaves.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from statistics import median

from trackbed.prove.findings import FAIL_BELOW
from trackbed.prove.rounds import Round
from trackbed.prove.samples import Values
from trackbed.prove.topology import FabricTopology

Flow = tuple[int, int, int]
"""Port that sends, port that receives, source port."""
_SHARED_PASSES = 2
_ALONE_TRIES = 2
_ALONE_FLOWS = 8
"""Flows of a leaf that are tried alone: some of them show a fault, and each costs rounds."""
_MOST_SHARED_ROUNDS = 40
_MOST_ALONE_ROUNDS = 2 * _ALONE_FLOWS
MOST_COVER_REPEATS = _SHARED_PASSES * _MOST_SHARED_ROUNDS + 2 * _MOST_ALONE_ROUNDS * _ALONE_TRIES
"""Rounds that the low flows of a cover, and the probes of their links, may add at most."""


def find_low_flows(
    topology: FabricTopology, results: Iterable[tuple[Round, Values]], is_explained: array[int]
) -> Generator[Round, Values, dict[Flow, float]]:
    """Repeat the low flows of a cover; return the loss of those that stay low alone."""
    pool = [
        (a, b, source_port)
        for tests, values in results
        if tests.source_ports
        for a, b, source_port, value in zip(tests.a, tests.b, tests.source_ports, values, strict=True)
        if value < FAIL_BELOW and not is_explained[a] and not is_explained[b]
    ]
    for number in range(_SHARED_PASSES):
        pool = _interleave(pool, number)
        most = max(1, topology.uplinks.links_per_leaf // 8)
        measured = yield from _measure(topology, pool, most, _MOST_SHARED_ROUNDS)
        pool = [flow for flow in pool if not measured.get(flow, 0.0) >= FAIL_BELOW]
    return (yield from measure_alone(topology, _limit_by_leaf(topology, pool)))


def measure_alone(topology: FabricTopology, flows: Sequence[Flow]) -> Generator[Round, Values, dict[Flow, float]]:
    """Repeat flows with no other flow on their leaves; return the loss of those that are low each time."""
    pool, values_of = list(flows), dict[Flow, list[float]]()
    for _ in range(_ALONE_TRIES):
        measured = yield from _measure(topology, pool, 1, _MOST_ALONE_ROUNDS)
        pool = [flow for flow in pool if not measured.get(flow, 0.0) >= FAIL_BELOW]
        for flow in pool:
            values_of.setdefault(flow, []).extend([measured[flow]] if flow in measured else [])
    return {flow: 1 - median(values_of[flow]) for flow in pool if len(values_of[flow]) >= _ALONE_TRIES - 1}


def _interleave(flows: list[Flow], number: int) -> list[Flow]:
    """Return flows in an order in which neighbours were far apart, so that other flows share a round in each pass."""
    stride = int(len(flows) ** 0.5) + 1 + number
    return [flow for start in range(stride) for flow in flows[start::stride]]


def _limit_by_leaf(topology: FabricTopology, flows: Iterable[Flow]) -> list[Flow]:
    """Return _ALONE_FLOWS of each leaf at most, those first that share a leaf with many others."""
    ordered = list(flows)
    leaves = Counter(topology.leaf_of[port] for flow in ordered for port in flow[:2])
    ordered.sort(key=lambda flow: -max(leaves[topology.leaf_of[port]] for port in flow[:2]))
    counts: Counter[int] = Counter()
    chosen = []
    for flow in ordered:
        ends = [topology.leaf_of[port] for port in flow[:2]]
        if min(counts[end] for end in ends) < _ALONE_FLOWS > max(counts[end] for end in ends):
            counts.update(ends)
            chosen.append(flow)
    return chosen


def _measure(
    topology: FabricTopology, flows: Sequence[Flow], most: int, rounds: int
) -> Generator[Round, Values, dict[Flow, float]]:
    """Ask for each flow once, in rounds with `most` flows of a leaf; return the values that came back."""
    waiting, measured = list(flows), dict[Flow, float]()
    for _ in range(rounds):
        if not waiting:
            break
        chosen, waiting = _select_disjoint(topology, waiting, most)
        values = yield Round("repeat", *(array("i", column) for column in zip(*chosen, strict=True)))
        measured |= {flow: value for flow, value in zip(chosen, values, strict=True) if not math.isnan(value)}
    return measured


def _select_disjoint(topology: FabricTopology, flows: Sequence[Flow], most: int) -> tuple[list[Flow], list[Flow]]:
    """Return flows without a port in common and with `most` of a leaf, and the others."""
    leaves: Counter[int] = Counter()
    ports: set[int] = set()
    chosen, others = [], []
    for flow in flows:
        ends = [topology.leaf_of[port] for port in flow[:2]]
        if ports.isdisjoint(flow[:2]) and all(leaves[end] < most for end in ends):
            leaves.update(ends)
            ports.update(flow[:2])
            chosen.append(flow)
        else:
            others.append(flow)
    return chosen, others
