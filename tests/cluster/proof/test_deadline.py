"""When kubelet ends the pods of a proof: never before its last sheet is over."""

import pytest

from tests.prove.hosts import build_plan
from trackbed.cluster.proof.deadline import compute_deadline, compute_start_seconds
from trackbed.fleet.sheet_run import LATE_SECONDS
from trackbed.prove.budget import compute_ladder_budget
from trackbed.prove.rungs import LADDER


@pytest.mark.parametrize(("nodes", "mode"), [(4, "screen"), (512, "full"), (512, "screen")])
def test_pods_outlive_sheets_that_are_late_and_repeated(nodes: int, mode: str) -> None:
    start_seconds = compute_start_seconds(nodes)
    budget = compute_ladder_budget(build_plan(nodes, units=32, rails=1), mode, LADDER, start_seconds)
    # The ends of pods, the rungs, and the files of ports first and last.
    sheets = 3 + sum(cost.sheets for cost in budget.rungs)
    seconds = budget.seconds + 3 * (start_seconds + 1)
    assert compute_deadline(budget) > 2 * (seconds + sheets * LATE_SECONDS)


def test_a_sheet_begins_the_later_the_more_pods_get_it() -> None:
    assert [compute_start_seconds(nodes) for nodes in (1, 1000, 12_500)] == [2.01, 12.0, 127.0]
