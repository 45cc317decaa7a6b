"""A plan written for machines reads back as it was."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.wanted import Wanted
from trackbed.plan.compute import plan
from trackbed.plan.wire import plan_document, read_node, write_node
from trackbed.spec.problems import SpecError


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_anything_else_is_refused_with_a_code(raw: bytes) -> None:
    with pytest.raises(SpecError) as caught:
        read_node(raw)
    assert [problem.code for problem in caught.value.problems] == ["bad-node-plan"]


@given(st.data())
def test_a_plan_with_a_value_of_another_kind_is_refused_or_read(data: st.DataObject) -> None:
    node = plan(Wanted({"scheme": "point-to-point", "ipv4": "10.0.0.0/24"}, nodes=1).fabric(), {}).nodes[0]
    document = msgspec.json.decode(write_node(node))
    part = data.draw(st.sampled_from([document["fabric"], document["node"], document["node"]["ports"][0]]))
    part[data.draw(st.sampled_from(sorted(part)))] = data.draw(st.sampled_from([None, -1, "x", [], {}, [[]], {"a": 1}]))
    try:
        read_node(msgspec.json.encode(document))
    except SpecError as error:
        assert error.problems[0].code == "bad-node-plan"  # noqa: PT017 - either outcome is right


def test_one_rail_can_be_written_alone() -> None:
    of = plan(Wanted({"scheme": "point-to-point", "ipv4": "10.0.0.0/24"}, nodes=2).fabric(), {})
    document = plan_document(of, of.nodes, rail=1)
    assert [[port.rail for port in node.ports] for node in document.nodes] == [[1], [1]]
