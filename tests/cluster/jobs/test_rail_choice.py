"""Rails of jobs on fabrics whose nodes have unlike rails."""

from __future__ import annotations

import pytest

from tests.cluster.stacks.sites import alike, planned
from trackbed.cluster.jobs.rail_choice import choose_rails, describe_other_nodes, format_rails, keep_nodes
from trackbed.fabric.plan.plan import Plan


@pytest.fixture
def plan() -> Plan:
    """Four nodes with rails 0 to 3, and two with rails 0 and 2."""
    whole = planned("native", alike(6, 4), 4)
    nodes = tuple(
        node._replace(ports=tuple(port for port in node.ports if index < 4 or port.rail in (0, 2)))
        for index, node in enumerate(whole.nodes)
    )
    return whole._replace(nodes=nodes)


def test_a_warning_counts_the_nodes_where_a_pod_never_starts(plan: Plan) -> None:
    assert describe_other_nodes(plan, (0, 1, 2, 3)) == (
        "a pod with rails 0-3 starts on 4 of 6 nodes, and never on 2 (2 with rails 0,2); --rails 0,2 fits all 6"
    )
    assert describe_other_nodes(plan, (0, 2)) == ""
    assert [len(keep_nodes(plan, rails).nodes) for rails in ((0, 1), (0, 2))] == [4, 6]


@pytest.mark.parametrize(("text", "rails"), [(None, (0, 1, 2, 3)), ("0,2", (0, 2)), (" 1-3 ,0", (0, 1, 2, 3))])
def test_rails_are_numbers_and_ranges(plan: Plan, text: str | None, rails: tuple[int, ...]) -> None:
    assert choose_rails(plan, text) == rails


WRONG = {
    "": "write numbers and ranges",
    "a": "write numbers",
    "3-1": "has rails 0-3",
    "4": "has rails 0-3",
    "0-9999": "has rails",
}


@pytest.mark.parametrize(("text", "message"), WRONG.items())
def test_other_rails_are_refused(plan: Plan, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        choose_rails(plan, text)


def test_rails_that_no_node_has_together_are_refused(plan: Plan) -> None:
    nodes = tuple(node._replace(ports=node.ports[:1] if node.slot else node.ports[1:2]) for node in plan.nodes)
    with pytest.raises(ValueError, match="no node has all of them"):
        choose_rails(plan._replace(nodes=nodes), "0,1")


def test_ranges_are_folded() -> None:
    assert format_rails((0, 1, 2, 4, 6, 7)) == "0-2,4,6-7"
