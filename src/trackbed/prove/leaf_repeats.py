"""Repeats within leaves and rails all of whose ports are slow: blamed only if they are slow with each other again.

A screen has one round within leaves. In a leaf of two ports that is one value, which one busy moment of a node makes
low; all others may be low by the leaf's uplink. A rail of two or three ports has three values, and in a rail of six two
slow ports are in most tests. One pair that is sound acquits its two ports, which a rail-wide fault would make low.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence

from trackbed.prove.pairing import pair_by_circle
from trackbed.prove.rounds import Round
from trackbed.prove.samples import Samples, Values
from trackbed.prove.suspects import decide
from trackbed.prove.topology import FabricTopology

_MOST_TURNS = 5
"""From so many values on, a leaf tells its own spread (module suspects)."""
_TURNS_OF_RAIL = 3
"""Rounds after which a rail is slow at the earliest: in one, each sound port may have met a slow one."""
_ValuesOfPairs = dict[tuple[int, int], list[float]]


def find_sound_within(
    topology: FabricTopology, samples: Samples, slow: Iterable[int], spread: float
) -> Generator[Round, Values, set[int]]:
    """Return the ports of leaves that are all `slow`, but sound with each other; yield the rounds that tell."""
    whole = [ports for ports in group_by_leaf(topology, slow) if is_whole(topology, samples, ports)]
    measured = yield from _repeat_groups(whole, spread, 1)
    return {
        port
        for ports, values_of in zip(whole, measured, strict=True)
        for port in ports
        if decide(_list_values(values_of), spread) == "sound"
    }


def find_sound_pairs(
    rails: Sequence[Sequence[int]], spread: float
) -> Generator[Round, Values, list[tuple[set[int], float]]]:
    """Return, for the ports of each rail, those that are sound with another one, and the least value of all."""
    measured = yield from _repeat_groups(rails, spread, _TURNS_OF_RAIL)
    return [
        (
            {port for pair, values in values_of.items() if decide(values, spread) == "sound" for port in pair},
            min(_list_values(values_of), default=0.0),
        )
        for values_of in measured
    ]


def _repeat_groups(
    groups: Sequence[Sequence[int]], spread: float, least_turns: int
) -> Generator[Round, Values, list[_ValuesOfPairs]]:
    """Return the values of pairs of each group, until all of them decide, after `least_turns` for a slow group."""
    values_of: list[_ValuesOfPairs] = [defaultdict(list) for _ in groups]
    active = list(range(len(groups)))
    for turn in range(_MOST_TURNS):
        tests = [(n, groups[n][a], groups[n][b]) for n in active for a, b in pair_by_circle(len(groups[n]), turn)]
        if not tests:
            break
        values = yield Round("repeat", array("i", (a for _, a, _ in tests)), array("i", (b for *_, b in tests)))
        for (number, a, b), value in zip(tests, values, strict=True):
            values_of[number][min(a, b), max(a, b)] += [value] if value == value else []  # noqa: PLR0124 - NaN
        verdicts = {number: decide(_list_values(values_of[number]), spread) for number in active}
        is_early = turn + 1 < least_turns
        active = [n for n, verdict in verdicts.items() if not verdict or (verdict == "slow" and is_early)]
    return values_of


def _list_values(values_of: _ValuesOfPairs) -> list[float]:
    return [value for values in values_of.values() for value in values]


def group_by_leaf(topology: FabricTopology, ports: Iterable[int]) -> list[list[int]]:
    """Return ports grouped by rail and leaf."""
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for port in ports:
        groups[port % topology.rails, topology.leaf_of[port]].append(port)
    return list(groups.values())


def is_whole(topology: FabricTopology, samples: Samples, ports: list[int]) -> bool:
    """Tell whether ports of one leaf are two or more, and all that were measured there."""
    rail, leaf = ports[0] % topology.rails, topology.leaf_of[ports[0]]
    all_ports = next(members for members in topology.ports[rail] if topology.leaf_of[members[0]] == leaf)
    return 1 < len(ports) == sum(bool(samples.near[port] + samples.far[port]) for port in all_ports)
