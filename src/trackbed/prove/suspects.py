"""Suspect ports, and their repeats against partners that are known to be good.

A port is suspect if more than half of its values are low. Its repeats alone decide, since the values that made it a
suspect were selected for being low. The median is compared with FAIL_BELOW, in units of its standard error; each repeat
has another partner, so that a partner that is slow itself cannot decide alone.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Generator, Iterable, Iterator, Sequence
from statistics import median, stdev
from typing import Literal, NamedTuple

from trackbed.prove.findings import FAIL_BELOW
from trackbed.prove.rounds import Round
from trackbed.prove.samples import LEAST_SPREAD, Values
from trackbed.prove.topology import FabricTopology

MOST_REPEATS = 24
"""Rounds of repeats; a suspect has MOST_TRIES of them."""
MOST_TRIES = 9
_LEAST_TRIES = 3
_ERROR_OF_MEDIAN = 1.2533
"""Standard error of a median, in standard errors of the mean of a normal distribution: sqrt(pi / 2)."""
_SOUND_ERRORS = 1.5
"""A port 15 % low and a spread of 3 % is called sound with a probability of 1e-7."""
_SLOW_ERRORS = 2.5
"""A sound port with a spread of 3 % is called slow with a probability of 5e-10."""
_LEAST_OF_OWN, _TIMES_OWN = 5, 2.0
"""So many values, and so many of their standard deviations, are needed for a spread of their own."""


Verdict = Literal["sound", "slow"]


class PortEvidence(NamedTuple):
    """Values and low values of each port that no wider culprit explains."""

    counts: array[int]
    lows: array[int]

    def find_suspects(self) -> list[int]:
        """Return the ports of which more than half of the values are low."""
        return [port for port, low in enumerate(self.lows) if 2 * low > self.counts[port]]

    def acquit(self, ports: Iterable[int]) -> None:
        """Forget the low values of ports that repeats have shown to be sound."""
        for port in ports:
            self.lows[port] = 0

    def is_sound(self, port: int) -> bool:
        """Return whether a port has values, none of them low."""
        return self.counts[port] > 0 and not self.lows[port]

    def decide(self, port: int, values: Sequence[float], spreads: Spreads) -> Verdict | None:
        """Return what the values of a suspect's repeats say; one value does not clear a port that was always low.

        A sound port has values as other sound ports have; that of a bad one may vary more.
        """
        if decide(values, spreads.sound) == "slow":
            return "slow"
        was_always_low = self.counts[port] >= _LEAST_TRIES and self.lows[port] == self.counts[port]
        if was_always_low and len(values) < _LEAST_TRIES:
            return None
        return "sound" if decide(values, spreads.all_tests) == "sound" else None


class Spreads(NamedTuple):
    """Standard deviations of values: of all tests, and of the tests of ports that are sound, which is no larger."""

    all_tests: float
    sound: float


class Repeats(NamedTuple):
    """Outcome of repeats: the loss of each slow port, and the ports that stayed undecided."""

    losses: dict[int, float]
    undecided: tuple[int, ...]


def repeat_suspects(
    topology: FabricTopology, evidence: PortEvidence, suspects: Sequence[int], spreads: Spreads
) -> Generator[Round, Values, Repeats]:
    """Ask for rounds of suspects with good partners until each is decided, or its tries are spent."""
    partners = _Partners(topology, evidence, suspects)
    values_of: dict[int, list[float]] = {port: [] for port in suspects}
    active, losses = list(suspects), dict[int, float]()
    for turn in range(MOST_REPEATS):
        pairs = list(partners.assign(active, turn))
        if not pairs:
            break
        tests = Round("repeat", array("i", (a for a, _ in pairs)), array("i", (b for _, b in pairs)))
        values = yield tests
        for (port, _), value in zip(pairs, values, strict=True):
            if not math.isnan(value):
                values_of[port].append(value)
        verdicts = {port: evidence.decide(port, values_of[port], spreads) for port, _ in pairs}
        losses |= {port: 1 - median(values_of[port]) for port, verdict in verdicts.items() if verdict == "slow"}
        active = [port for port in active if not verdicts.get(port) and len(values_of[port]) < MOST_TRIES]
    decided = {port for port, values in values_of.items() if evidence.decide(port, values, spreads)}
    return Repeats(losses, tuple(port for port in suspects if port not in decided))


def decide(values: Sequence[float], spread: float) -> Verdict | None:
    """Return what the values of repeats say of a port; None while they are too few or too close to the limit."""
    if not values:
        return None
    center, error = median(values), _ERROR_OF_MEDIAN * _narrow_spread(values, spread) / math.sqrt(len(values))
    if center - _SOUND_ERRORS * error > FAIL_BELOW:
        return "sound"
    return "slow" if len(values) >= _LEAST_TRIES and center + _SLOW_ERRORS * error < FAIL_BELOW else None


def _narrow_spread(values: Sequence[float], spread: float) -> float:
    """Return the spread that these values have themselves, where it is much smaller.

    A fault that is in half of the tests of a small fabric widens the spread of all tests.
    """
    return min(spread, max(LEAST_SPREAD, _TIMES_OWN * stdev(values))) if len(values) >= _LEAST_OF_OWN else spread


class _Partners:
    """Good partners of suspects: of their leaf, else of their rail; where none is good, ports that are no suspects."""

    def __init__(self, topology: FabricTopology, evidence: PortEvidence, suspects: Iterable[int]) -> None:
        self._topology, excluded = topology, set(suspects)
        self._by_leaf: dict[tuple[int, int], list[int]] = {}
        self._by_rail: list[list[int]] = [[] for _ in range(topology.rails)]
        self._others: list[list[int]] = [[] for _ in range(topology.rails)]
        for rail in {port % topology.rails for port in excluded}:
            for port in (port for leaf in topology.ports[rail] for port in leaf):
                if evidence.is_sound(port):
                    self._by_leaf.setdefault((rail, topology.leaf_of[port]), []).append(port)
                    self._by_rail[rail].append(port)
                elif evidence.counts[port] and port not in excluded:
                    self._others[rail].append(port)

    def assign(self, active: Iterable[int], turn: int) -> Iterator[tuple[int, int]]:
        """Yield suspects with a free partner, another one each turn; the others wait for a later turn."""
        taken: set[int] = set()
        for number, port in enumerate(active):
            rail = port % self._topology.rails
            own_leaf = self._by_leaf.get((rail, self._topology.leaf_of[port]), [])
            for candidates in (own_leaf, self._by_rail[rail], self._others[rail]):
                partner = _find_free(candidates, taken, turn + number)
                if partner is not None:
                    taken.add(partner)
                    yield port, partner
                    break


_MOST_LOOKUPS = 256
"""Candidates that are looked at for a free one; a rail has thousands."""


def _find_free(candidates: Sequence[int], taken: set[int], offset: int) -> int | None:
    count = len(candidates)
    for step in range(min(count, _MOST_LOOKUPS)):
        if (candidate := candidates[(offset + step) % count]) not in taken:
            return candidate
    return None
