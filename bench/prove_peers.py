"""What others would say of the same incidents, simulated by their published rules; the part that they name is a node.

one partner  ROCm/gpu-operator's example gpu-validation-cluster: nodes 0-1, 2-3, ... rail by rail, 380 of 400 Gb/s; both
             nodes of a pair that fails are labelled; 8 pairs at once, 8 to 16 minutes each (12 here)
serial       l8k's quick validation: same rail of neighbouring nodes, one test after another, 100 Gb/s; 144 tests have a
             budget of 2 h 10 min 24 s
bisection    NVIDIA's Cluster Readiness Engine: groups of ceil(sqrt(N)) nodes, failing ones halved, the last suspects
             paired with a good node; thresholds are off by default, 0.92 of the rate here; 4 minutes a job

Their measurements see ports, leaves and rails as ours do. Links between leaves and spines are left out: a collective
and a test with one partner hit few of them.
"""

import math
import random
from collections.abc import Callable, Iterable
from typing import Final

from bench.prove_cases import Incident
from bench.prove_network import NOISE, SOUND
from trackbed.prove.topology import FabricTopology

Outcome = tuple[list[int], float]
"""Nodes in the order in which they are named, and seconds."""
_PAIRS_AT_ONCE: Final = 8
_PAIR_SECONDS: Final = 12 * 60
_ONE_PARTNER_LIMIT: Final = 380 / 400
_SERIAL_LIMIT: Final = 100 / 400
_SERIAL_SECONDS: Final = (2 * 3600 + 10 * 60 + 24) / 144
_GROUP_LIMIT: Final = 0.92
_JOB_SECONDS: Final = 4 * 60


def try_one_partner(topology: FabricTopology, incident: Incident, chance: random.Random) -> Outcome:
    """Test each node with its neighbour."""
    count = len(topology.nodes)
    failed = [
        node
        for first in range(0, count - 1, 2)
        if min(_measure(topology, incident, (first, first + 1), [rail], chance) for rail in range(topology.rails))
        < _ONE_PARTNER_LIMIT
        for node in (first, first + 1)
    ]
    return failed, math.ceil(count / 2 / _PAIRS_AT_ONCE) * _PAIR_SECONDS


def try_serial_pairs(topology: FabricTopology, incident: Incident, chance: random.Random) -> Outcome:
    """Test neighbours on each rail, one pair after another."""
    count = len(topology.nodes)
    failed = [
        node
        for rail in range(topology.rails)
        for first in range(count - 1)
        if _measure(topology, incident, (first, first + 1), [rail], chance) < _SERIAL_LIMIT
        for node in (first, first + 1)
    ]
    return list(dict.fromkeys(failed)), topology.rails * (count - 1) * _SERIAL_SECONDS


def bisect(topology: FabricTopology, incident: Incident, chance: random.Random) -> Outcome:
    """Halve the groups that fail until single nodes are left, and pair these with a node of a group that passed."""
    count = len(topology.nodes)
    size = math.ceil(math.sqrt(count))
    groups, good, suspects, jobs = [range(at, min(at + size, count)) for at in range(0, count, size)], -1, [], 0
    while groups:
        jobs += 1
        passed = [group for group in groups if _passes(topology, incident, group, chance)]
        good = passed[0][0] if passed and good < 0 else good
        failed = [group for group in groups if group not in passed]
        suspects += [group[0] for group in failed if len(group) == 1]
        halves = [(group[: len(group) // 2], group[len(group) // 2 :]) for group in failed if len(group) > 1]
        groups = [half for pair in halves for half in pair]
    pairs = {node: (node, good if good >= 0 else node) for node in suspects}
    named = [node for node in suspects if not _passes(topology, incident, pairs[node], chance)]
    return named, (jobs + bool(suspects)) * _JOB_SECONDS


PEERS: Final[dict[str, Callable[[FabricTopology, Incident, random.Random], Outcome]]] = {
    "one partner": try_one_partner,
    "serial pairs": try_serial_pairs,
    "bisection": bisect,
}


def _passes(topology: FabricTopology, incident: Incident, group: Iterable[int], chance: random.Random) -> bool:
    return _measure(topology, incident, group, range(topology.rails), chance) >= _GROUP_LIMIT


def _measure(
    topology: FabricTopology, incident: Incident, nodes: Iterable[int], rails: Iterable[int], chance: random.Random
) -> float:
    """Return the value of one measurement: that of its slowest port."""
    faults, slowest, wanted = incident.faults, 1.0, list(rails)
    for node in nodes:
        for rail in wanted:
            port = node * topology.rails + rail
            left = (faults.ports.get(port, 1.0), faults.leaves.get(topology.leaf_of[port], 1.0))
            slowest = min(slowest, *left, faults.rails.get(rail, 1.0))
    return SOUND * slowest * chance.gauss(1.0, NOISE)
