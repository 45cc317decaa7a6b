"""Uplinks, pairs of leaves and rails that are low between leaves, although the ports of each leaf are fine.

A screen tests few pairs of leaves. Where its values do not tell an uplink from a path, suspect leaves are repeated with
others, all ports of a leaf at once, since an uplink may be low only when it is full.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from statistics import median

from trackbed.prove.culprits import Culprit
from trackbed.prove.findings import FAIL_BELOW
from trackbed.prove.rounds import Round
from trackbed.prove.samples import Values
from trackbed.prove.suspects import decide
from trackbed.prove.topology import FabricTopology

Results = Sequence[tuple[Round, Values]]
_ValuesOfRails = dict[int, dict[tuple[int, int], list[float]]]
"""By rail, then by pair of leaves."""
_TURNS = 6
_OTHERS = 2
"""Leaves that a suspect leaf is repeated with: one that is shared by low pairs is an uplink, and not a path."""
_MOST_OF = 0.8
"""Share of the leaves of a rail that makes it low between all."""
_LEAST_LEAVES = 3


def blame_paths(
    topology: FabricTopology, results: Results, is_explained: array[int], paths: set[int], spread: float
) -> Generator[Round, Values, list[Culprit]]:
    """Find what is low between leaves; yield rounds to repeat where the results do not tell an uplink from a path.

    `paths` are the leaves whose ports are fine with each other, and low towards other leaves.
    """
    values_of = _collect_values(topology, results, is_explained, paths)
    culprits = list(_find_culprits(topology, values_of, spread))
    suspects = paths & _list_low_leaves(values_of)
    if not suspects or any(not _can_be_told(topology, culprit) for culprit in culprits):
        return culprits
    repeated = list(results)
    for turn in range(_TURNS):
        tests = _build_round(topology, is_explained, suspects, turn)
        if not tests.a:
            return culprits
        repeated.append((tests, (yield tests)))
    return list(_find_culprits(topology, _collect_values(topology, repeated, is_explained, paths), spread))


def _list_low_leaves(values_of: _ValuesOfRails) -> set[int]:
    """Return the leaves that are low over all their pairs together."""
    by_leaf: dict[int, list[float]] = defaultdict(list)
    for by_pair in values_of.values():
        for pair, values in by_pair.items():
            for leaf in pair:
                by_leaf[leaf] += values
    return {leaf for leaf, values in by_leaf.items() if values and median(values) < FAIL_BELOW}


def _can_be_told(topology: FabricTopology, culprit: Culprit) -> bool:
    """Return whether a third leaf can tell a path from the uplinks at its ends."""
    return culprit.kind == "path" and culprit.rail is not None and len(topology.ports[culprit.rail]) >= _LEAST_LEAVES


def _build_round(topology: FabricTopology, is_explained: array[int], suspects: set[int], turn: int) -> Round:
    """Return a round of all ports of suspect leaves, each with a port of another leaf."""
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for leaves in topology.ports:
        sound = [ports for ports in leaves if not is_explained[ports[0]]]
        sound.sort(key=lambda ports: topology.leaf_of[ports[0]] in suspects)  # those that are no suspects first
        for ports in sound:
            leaf = topology.leaf_of[ports[0]]
            others = [other for other in sound if topology.leaf_of[other[0]] != leaf][:_OTHERS]
            if leaf in suspects and others:
                for a, b in zip(ports, others[turn % len(others)], strict=False):
                    if not taken & {a, b} and not is_explained[a] | is_explained[b]:
                        pairs[a] = b
                        taken |= {a, b}
    return Round("repeat", array("i", pairs), array("i", pairs.values()))


def _collect_values(
    topology: FabricTopology, results: Results, is_explained: array[int], paths: set[int]
) -> _ValuesOfRails:
    """Return the values of tests between leaves, of which one is in `paths`, and whose ports nothing else explains."""
    values_of: _ValuesOfRails = {}
    for tests, values in results:
        if tests.source_ports or tests.kind == "matrix":
            continue
        for a, b, value in zip(tests.a, tests.b, values, strict=True):
            ends = topology.leaf_of[a], topology.leaf_of[b]
            if ends[0] != ends[1] and not paths.isdisjoint(ends) and not is_explained[a] | is_explained[b]:
                by_pair = values_of.setdefault(a % topology.rails, defaultdict(list))
                by_pair[min(ends), max(ends)] += [value] if value == value else []  # noqa: PLR0124 - NaN
    return values_of


def _find_culprits(topology: FabricTopology, values_of: _ValuesOfRails, spread: float) -> Iterator[Culprit]:
    """Yield the uplinks, pairs of leaves or rails whose tests between leaves are low."""
    for rail, by_pair in values_of.items():
        low = {pair: 1 - median(values) for pair, values in by_pair.items() if decide(values, spread) == "slow"}
        leaves = len(topology.ports[rail])
        if leaves >= _LEAST_LEAVES and len({leaf for pair in low for leaf in pair}) >= _MOST_OF * leaves > 0:
            shared = set.intersection(*(set(pair) for pair in low))
            if not shared:
                yield Culprit("fabric", median(low.values()), rail=rail)
                continue
        yield from _blame_pairs(rail, low)


def _blame_pairs(rail: int, low: dict[tuple[int, int], float]) -> Iterator[Culprit]:
    """Yield the leaf that most low pairs have in common, without these pairs the next, then single pairs."""
    while low:
        partners: dict[int, list[float]] = defaultdict(list)
        for pair, loss in low.items():
            for leaf in pair:
                partners[leaf].append(loss)
        leaf = max(partners, key=lambda leaf: len(partners[leaf]))
        if len(partners[leaf]) == 1:
            yield from (Culprit("path", loss, rail=rail, leaves=pair) for pair, loss in low.items())
            return
        yield Culprit("uplink", median(partners[leaf]), rail=rail, leaves=(leaf,))
        low = {pair: loss for pair, loss in low.items() if leaf not in pair}
