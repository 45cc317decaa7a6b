"""Values of rounds, counted by port and by leaf.

A value is the measured rate as a fraction of the lower of both ports' negotiated rates; NaN is a test without a value.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Sequence
from statistics import median
from typing import NamedTuple

from trackbed.prove.findings import FAIL_BELOW
from trackbed.prove.rounds import Round
from trackbed.prove.topology import FabricTopology

Values = Sequence[float]
_MOST_FOR_SPREAD = 4001
"""Values from which the spread is estimated; more give no better estimate."""
LEAST_SPREAD = 0.01
"""Spread that is never taken to be smaller, whatever few values show."""
_USUAL_SPREAD, _FEW = 0.03, 30
"""Spread of sound values that is assumed where fewer values than this tell it."""
_SIGMA_OF_MAD = 1.4826
"""Standard deviation of a normal distribution, in median absolute deviations."""


class Samples(NamedTuple):
    """Numbers of values, and of values under FAIL_BELOW, of each port: within its leaf, and to other leaves."""

    near: array[int]
    near_low: array[int]
    far: array[int]
    far_low: array[int]
    sums: array[float]
    """Sum of the values of each port."""
    medians: tuple[tuple[float | None, float | None], ...]
    """Median near value and far value of each rail."""
    leaf_medians: tuple[tuple[float, ...], ...]
    """Median near value of each leaf that has one, by rail."""
    spread: float
    """Standard deviation of a sound value, estimated from its median absolute deviation."""


def count_samples(topology: FabricTopology, results: Iterable[tuple[Round, Values]]) -> Samples:
    """Count the values of spread tests between ports of one rail."""
    size = len(topology.leaf_of)
    near, near_low, far, far_low = (array("H", bytes(2 * size)) for _ in range(4))
    sums = array("d", bytes(8 * size))
    values_of: list[tuple[list[float], list[float]]] = [([], []) for _ in range(topology.rails)]
    near_of: list[dict[int, list[float]]] = [{} for _ in range(topology.rails)]
    leaf_of, rails = topology.leaf_of, topology.rails
    for tests, values in results:
        if tests.source_ports or tests.kind == "matrix":
            continue
        for a, b, value in zip(tests.a, tests.b, values, strict=True):
            if value != value:  # noqa: PLR0124 - NaN
                continue
            is_near = leaf_of[a] == leaf_of[b]
            counts, lows = (near, near_low) if is_near else (far, far_low)
            counts[a] += 1
            counts[b] += 1
            sums[a] += value
            sums[b] += value
            if value < FAIL_BELOW:
                lows[a] += 1
                lows[b] += 1
            values_of[a % rails][0 if is_near else 1].append(value)
            if is_near:
                near_of[a % rails].setdefault(leaf_of[a], []).append(value)
    medians = tuple(
        (_compute_median(near_values), _compute_median(far_values)) for near_values, far_values in values_of
    )
    leaf_medians = tuple(tuple(median(values) for values in by_leaf.values()) for by_leaf in near_of)
    return Samples(near, near_low, far, far_low, sums, medians, leaf_medians, _estimate_spread(values_of, medians))


def _compute_median(values: list[float]) -> float | None:
    return median(values) if values else None


def _estimate_spread(
    values_of: Sequence[tuple[list[float], list[float]]], medians: Sequence[tuple[float | None, float | None]]
) -> float:
    """Return the median over rails, so that one rail that is broken widens nothing."""
    spreads = [
        _SIGMA_OF_MAD * median(abs(value - center) for value in values[:_MOST_FOR_SPREAD])
        for (near, far), (near_median, far_median) in zip(values_of, medians, strict=True)
        for values, center in ((near, near_median), (far, far_median))
        if center is not None
    ]
    return max(LEAST_SPREAD, median(spreads) if spreads else 0.0)


def estimate_sound_spread(
    results: Iterable[tuple[Round, Values]], samples: Samples, suspects: Collection[int]
) -> float:
    """Return the spread of the tests that no suspect is in, at most that of all tests.

    In a fabric of few nodes, a port whose values vary is in so many tests that its own spread would excuse it.
    """
    if not suspects:
        return samples.spread
    excluded, sound = frozenset(suspects), list[float]()
    for tests, values in results:
        for a, b, value in zip(tests.a, tests.b, values, strict=True) if len(sound) < _MOST_FOR_SPREAD else ():
            if value == value and a not in excluded and b not in excluded:  # noqa: PLR0124 - NaN
                sound.append(value)
    center = _compute_median(sound)
    spread = _USUAL_SPREAD
    if center is not None and len(sound) >= _FEW:
        spread = _SIGMA_OF_MAD * median(abs(value - center) for value in sound)
    return min(samples.spread, max(LEAST_SPREAD, spread))
