"""What a proof costs, computed before anything runs.

A sheet has up to MOST_ROUNDS rounds, and begins some time after it is sent: how long depends on the transport.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from trackbed.fabric.plan.plan import Plan
from trackbed.prove.blame import MOST_COVER_REPEATS, MOST_REPEATS
from trackbed.prove.coverage import combine_rounds
from trackbed.prove.proof import MOST_ROUNDS
from trackbed.prove.rounds import (
    compute_round_probability,
    count_full_rounds,
    count_rounds_of_cover,
    plan_cover,
    plan_rounds,
)
from trackbed.prove.rungs import GID, PATH_RUNGS
from trackbed.prove.rungs.rung import Rung
from trackbed.prove.topology import FabricTopology, build_topology

ROUND_SECONDS = 8
"""Start at one time for all (2 s), traffic (5 s), collection of values (1 s): an assumption, not a measurement."""
START_SECONDS = 1
"""From sending a sheet to its first round, over SSH."""


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


class RungBudget(NamedTuple):
    """The cost of a rung, without repeats."""

    rung: str
    transport: str
    tests: int
    rounds: int
    sheets: int
    """Sheets in which its rounds are sent, one after the other."""
    seconds: float


class LadderBudget(NamedTuple):
    """The cost of a mode on some rungs."""

    mode: str
    nodes: int
    ports: int
    rungs: tuple[RungBudget, ...]
    seconds: float
    """Seconds of all rungs, without connecting and without repeats."""
    most_repeats: int
    """Rounds that suspects may add on each rung, at most."""
    most_seconds: float
    """Seconds with all repeats."""
    most_sheets: int
    """Sheets with all repeats; each of these is a sheet."""
    coverage: float | None
    """Least probability that a link between leaf and spine is hit; None for a mode that does not count it."""


def compute_ladder_budget(
    plan: Plan, mode: str, rungs: Sequence[str], start_seconds: float = START_SECONDS
) -> LadderBudget:
    """Return the cost of a mode for the nodes of a plan on some rungs.

    `start_seconds`: from sending a sheet to its first round. Raises KeyError for another mode or rung.
    """
    topology = build_topology(plan)
    budget = compute_budget(topology, mode)
    ports = topology.count_ports()
    isolated = _count_isolated_tests(topology) if mode == "matrix" and plan.common.cross_rail == "isolated" else 0
    costs = tuple(
        _cost_rung(PATH_RUNGS[name], budget, isolated, start_seconds)
        if name != GID
        else RungBudget(GID, "rdma", ports, 0, 0, 0.0)
        for name in rungs
    )
    seconds = sum(cost.seconds for cost in costs)
    # Latency asks for no repeats.
    repeated = [PATH_RUNGS[name] for name in rungs if name != GID and PATH_RUNGS[name].scale != "latency"]
    repeats = budget.repeats * sum(rung.seconds + start_seconds for rung in repeated)
    coverage = min(filter(None, compute_link_probabilities(topology, budget.rounds).values()), default=None)
    return LadderBudget(
        mode,
        len(topology.nodes),
        ports,
        costs,
        seconds,
        budget.repeats,
        seconds + repeats,
        sum(cost.sheets for cost in costs) + budget.repeats * len(repeated),
        coverage if mode == "cover" else None,
    )


def _cost_rung(rung: Rung, budget: Budget, isolated: int, start_seconds: float) -> RungBudget:
    tests = budget.tests - (0 if rung.tests_isolation else isolated)
    sheets = math.ceil(budget.rounds / MOST_ROUNDS) if tests else 0
    seconds = sheets * start_seconds + budget.rounds * rung.seconds if tests else 0.0
    return RungBudget(rung.name, rung.transport, tests, budget.rounds, sheets, seconds)


def _count_isolated_tests(topology: FabricTopology) -> int:
    rounds = ((a, b) for tests in plan_rounds(topology, "matrix") for a, b in zip(tests.a, tests.b, strict=True))
    return sum(a % topology.rails != b % topology.rails for a, b in rounds)


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
    return _count_rounds(topology, "screen")


def _budget_cover(topology: FabricTopology) -> Budget:
    # Rounds differ by rotation alone, but unequal leaves give unequal rounds.
    return Budget(
        count_rounds_of_cover(topology), sum(len(tests.a) for tests in plan_cover(topology)), MOST_COVER_REPEATS
    )


def _budget_full(topology: FabricTopology) -> Budget:
    counts = [sum(map(len, leaves)) for leaves in topology.ports]
    return Budget(count_full_rounds(topology), sum(count * (count - 1) // 2 for count in counts), MOST_REPEATS)


def _budget_matrix(topology: FabricTopology) -> Budget:
    return _count_rounds(topology, "matrix")


def _count_rounds(topology: FabricTopology, mode: str) -> Budget:
    rounds = [len(tests.a) for tests in plan_rounds(topology, mode)]
    return Budget(len(rounds), sum(rounds), MOST_REPEATS)


_BUDGETS = {"screen": _budget_screen, "cover": _budget_cover, "full": _budget_full, "matrix": _budget_matrix}
