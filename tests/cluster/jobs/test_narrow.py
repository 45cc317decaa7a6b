"""A plan with fewer rails keeps all numbers."""

from __future__ import annotations

import pytest

from tests.cluster.stacks.sites import alike, planned
from trackbed.cluster.jobs.requirements import narrow_plan
from trackbed.fabric.plan.node_document import encode_node

WHOLE = planned("native", alike(3, 8), 8)


def test_the_rails_that_stay_are_as_they_were() -> None:
    some = narrow_plan(WHOLE, (6, 0, 4))
    assert some.common.rails == tuple(WHOLE.common.rails[rail] for rail in (0, 4, 6))
    for node, before in zip(some.nodes, WHOLE.nodes, strict=True):
        assert node.ports == tuple(before.ports[rail] for rail in (0, 4, 6))
        assert (node.name, node.slot, node.common) == (before.name, before.slot, some.common)


def test_all_rails_are_the_plan_itself() -> None:
    assert narrow_plan(WHOLE, range(8)) is WHOLE


def test_only_a_narrowed_plan_says_so_on_the_wire() -> None:
    assert b"narrowed" not in encode_node(WHOLE.nodes[0])
    assert b'"narrowed": true' in encode_node(narrow_plan(WHOLE, {3}).nodes[0])


@pytest.mark.parametrize("rails", [(), (8,), (0, -1)], ids=["none", "one too many", "below zero"])
def test_rails_that_are_not_there_are_refused(rails: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"of \[0, 1, 2, 3, 4, 5, 6, 7\]"):
        narrow_plan(WHOLE, rails)
