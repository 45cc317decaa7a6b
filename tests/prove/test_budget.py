import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.prove.hosts import Hosts, build_plan
from tests.prove.topologies import build, topologies
from trackbed.prove.budget import ROUND_SECONDS, compute_budget, compute_ladder_budget
from trackbed.prove.proof import MOST_ROUNDS
from trackbed.prove.rounds import PLANNERS, plan_rounds
from trackbed.prove.rungs import LADDER
from trackbed.prove.topology import FabricTopology


@given(topologies(), st.sampled_from(sorted(PLANNERS)))
def test_a_budget_is_what_the_planner_yields(topology: FabricTopology, mode: str) -> None:
    rounds = list(plan_rounds(topology, mode))
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


@pytest.mark.parametrize("start_seconds", [1.0, 12.25])
def test_the_budget_of_a_ladder_counts_the_start_of_each_sheet(start_seconds: float) -> None:
    hosts = Hosts(build_plan(20, units=20, rails=1))
    hosts.prove("full")
    climbed = [sheet for sheet in hosts.sheets if sheet.title != "files"]
    budget = compute_ladder_budget(hosts.plan, "full", LADDER, start_seconds)
    assert budget.rungs[0].rounds > MOST_ROUNDS
    assert sum(cost.sheets for cost in budget.rungs) == len(climbed)
    assert budget.seconds == sum(start_seconds + sum(tests.seconds for tests in sheet.rounds) for sheet in climbed)


def test_each_repeat_is_a_sheet_that_starts_by_itself() -> None:
    slow, fast = (compute_ladder_budget(build_plan(4), "screen", ["ping"], start) for start in (21.0, 1.0))
    assert slow.most_seconds - fast.most_seconds == 20 * slow.most_sheets
    assert slow.most_sheets == 1 + slow.most_repeats
