import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.prove.topologies import build, topologies
from trackbed.prove.budget import ROUND_SECONDS, compute_budget
from trackbed.prove.rounds import PLANNERS
from trackbed.prove.topology import FabricTopology


@given(topologies(), st.sampled_from(sorted(PLANNERS)))
def test_a_budget_is_what_the_planner_yields(topology: FabricTopology, mode: str) -> None:
    rounds = list(PLANNERS[mode](topology))
    budget = compute_budget(topology, mode)
    assert (budget.rounds, budget.tests) == (len(rounds), sum(len(tests.a) for tests in rounds))
    assert budget.seconds == len(rounds) * ROUND_SECONDS
    assert budget.most_seconds > budget.seconds


@pytest.mark.parametrize("nodes", [2, 33, 128])
def test_a_screen_costs_three_rounds_whatever_the_size(nodes: int) -> None:
    assert compute_budget(build(nodes), "screen").rounds == 3


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(KeyError):
        compute_budget(build(2), "quick")
