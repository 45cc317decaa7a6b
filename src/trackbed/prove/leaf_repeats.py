"""Repeats within leaves and rails all of whose ports are slow: blamed only if they are slow with each other again.

A screen has one round within leaves. In a leaf of two ports that is one value, which one busy moment of a node makes
low; all others may be low by the leaf's uplink. A rail of two or three ports has three values.
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


def find_sound_within(
    topology: FabricTopology, samples: Samples, slow: Iterable[int], spread: float
) -> Generator[Round, Values, set[int]]:
    """Return the ports of leaves that are all `slow`, but sound with each other; yield the rounds that tell."""
    whole = [ports for ports in group_by_leaf(topology, slow) if is_whole(topology, samples, ports)]
    sound = yield from find_sound_groups(whole, spread)
    return {port for number in sound for port in whole[number]}


def find_sound_groups(
    groups: Sequence[Sequence[int]], spread: float
) -> Generator[Round, Values, dict[int, list[float]]]:
    """Return the values of groups whose ports are sound with each other, by number; yield the rounds that tell."""
    values_of: list[list[float]] = [[] for _ in groups]
    active = list(range(len(groups)))
    for turn in range(_MOST_TURNS):
        tests = [(n, groups[n][a], groups[n][b]) for n in active for a, b in pair_by_circle(len(groups[n]), turn)]
        if not tests:
            break
        values = yield Round("repeat", array("i", (a for _, a, _ in tests)), array("i", (b for *_, b in tests)))
        for (number, *_), value in zip(tests, values, strict=True):
            values_of[number] += [value] if value == value else []  # noqa: PLR0124 - NaN
        active = [number for number in active if not decide(values_of[number], spread)]
    return {number: values for number, values in enumerate(values_of) if decide(values, spread) == "sound"}


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
