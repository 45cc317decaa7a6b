"""What a proof costs, computed before anything runs."""

from typing import NamedTuple

from trackbed.prove.blame import MOST_COVER_REPEATS, MOST_REPEATS
from trackbed.prove.coverage import combine_rounds
from trackbed.prove.rounds import (
    SCREEN_ROUNDS,
    compute_round_probability,
    count_full_rounds,
    count_rounds_of_cover,
    plan_cover,
    plan_matrix,
    plan_screen,
)
from trackbed.prove.topology import FabricTopology

ROUND_SECONDS = 8
"""Start at one time for all (2 s), traffic (5 s), collection of values (1 s): an assumption, not a measurement."""


class Budget(NamedTuple):
    """The cost of a mode."""

    rounds: int
    tests: int
    repeats: int
    """Rounds that suspects may add at most."""

    @property
    def seconds(self) -> int:
        """Seconds of the planned rounds."""
        return self.rounds * ROUND_SECONDS

    @property
    def most_seconds(self) -> int:
        """Seconds with all repeats."""
        return (self.rounds + self.repeats) * ROUND_SECONDS


def compute_budget(topology: FabricTopology, mode: str) -> Budget:
    """Return the cost of a mode: screen, cover, full or matrix. Raises KeyError for another mode."""
    return _BUDGETS[mode](topology)


def compute_link_probabilities(topology: FabricTopology, rounds: int) -> dict[int, float]:
    """Return, for each leaf, the probability that `rounds` rounds of a cover hit a given link of it.

    0 for a leaf that shares no spine with another leaf of its rail.
    """
    probabilities = dict.fromkeys(range(len(topology.leaves)), 0.0)
    for rail in range(topology.rails):
        for leaves in topology.iter_pods(rail):
            if len(leaves) > 1:
                played = rounds if len(leaves) % 2 == 0 else rounds * (len(leaves) - 1) // len(leaves)
                probability = compute_round_probability(topology.uplinks, min(map(len, leaves)))
                hit = combine_rounds(probability, played)
                probabilities |= {topology.leaf_of[leaf[0]]: hit for leaf in leaves}
    return probabilities


def _budget_screen(topology: FabricTopology) -> Budget:
    return Budget(SCREEN_ROUNDS, sum(len(tests.a) for tests in plan_screen(topology)), MOST_REPEATS)


def _budget_cover(topology: FabricTopology) -> Budget:
    # Rounds differ by rotation alone, but unequal leaves give unequal rounds.
    return Budget(
        count_rounds_of_cover(topology), sum(len(tests.a) for tests in plan_cover(topology)), MOST_COVER_REPEATS
    )


def _budget_full(topology: FabricTopology) -> Budget:
    counts = [sum(map(len, leaves)) for leaves in topology.ports]
    return Budget(count_full_rounds(topology), sum(count * (count - 1) // 2 for count in counts), MOST_REPEATS)


def _budget_matrix(topology: FabricTopology) -> Budget:
    return Budget(topology.rails, sum(len(tests.a) for tests in plan_matrix(topology)), MOST_REPEATS)


_BUDGETS = {"screen": _budget_screen, "cover": _budget_cover, "full": _budget_full, "matrix": _budget_matrix}
