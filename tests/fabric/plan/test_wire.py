"""A plan written for machines reads back as it was."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fabric.plan.wanted import Wanted
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan
from trackbed.fabric.plan.plan_file import is_plan, read_plan, write_plan
from trackbed.fabric.plan.wire import read_node, to_node_document, write_node

POINT_TO_POINT = {"scheme": "point-to-point", "ipv4": "10.0.0.0/24"}


def written(of: Plan, rail: int | None = None) -> bytes:
    return write_plan(of, of.nodes, rail)


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_anything_else_is_refused_with_a_code(raw: bytes) -> None:
    with pytest.raises(SpecError) as caught:
        read_node(raw)
    assert [problem.code for problem in caught.value.problems] == ["bad-node-plan"]
    with pytest.raises(SpecError) as caught:
        read_plan(raw)
    assert [problem.code for problem in caught.value.problems] == ["bad-plan"]


@pytest.mark.parametrize(
    "addressing",
    [
        pytest.param(POINT_TO_POINT, id="point to point"),
        pytest.param({"scheme": "node-subnet", "ipv4": "10.0.0.0/12", "ipv6": "fd00:10::/40"}, id="both versions"),
        pytest.param({"scheme": "none"}, id="without addresses"),
    ],
)
def test_a_plan_reads_back_as_it_was(addressing: dict[str, str]) -> None:
    of = compute_plan(Wanted(addressing, nodes=3).fabric(), {})
    assert read_plan(written(of)) == of._replace(warnings=())


def test_a_node_is_written_with_a_line_for_each_value() -> None:
    node = compute_plan(Wanted(POINT_TO_POINT, nodes=1).fabric(), {}).nodes[0]
    assert write_node(node) == msgspec.json.format(msgspec.json.encode(to_node_document(node)), indent=1)


def test_a_plan_is_told_from_a_fabric_however_it_is_indented() -> None:
    raw = written(compute_plan(Wanted(POINT_TO_POINT, nodes=1).fabric(), {}))
    assert is_plan(raw)
    assert is_plan(msgspec.json.format(raw, indent=8))
    assert not is_plan(b'{"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric"}')
    assert not is_plan(b"apiVersion: trackbed.dev/v1alpha1\n")


def test_a_plan_of_one_rail_is_no_plan_of_a_host() -> None:
    with pytest.raises(SpecError, match=r"has rail 1 alone; write it with .* without --rail"):
        read_plan(written(compute_plan(Wanted(POINT_TO_POINT, nodes=2).fabric(), {}), rail=1))


@given(st.data())
def test_a_plan_with_a_value_of_another_kind_is_refused_or_read(data: st.DataObject) -> None:
    node = compute_plan(Wanted({"scheme": "point-to-point", "ipv4": "10.0.0.0/24"}, nodes=1).fabric(), {}).nodes[0]
    document = msgspec.json.decode(write_node(node))
    part = data.draw(st.sampled_from([document["fabric"], document["node"], document["node"]["ports"][0]]))
    part[data.draw(st.sampled_from(sorted(part)))] = data.draw(st.sampled_from([None, -1, "x", [], {}, [[]], {"a": 1}]))
    try:
        read_node(msgspec.json.encode(document))
    except SpecError as error:
        assert error.problems[0].code == "bad-node-plan"  # noqa: PT017 - either outcome is right


def test_one_rail_can_be_written_alone() -> None:
    of = compute_plan(Wanted({"scheme": "point-to-point", "ipv4": "10.0.0.0/24"}, nodes=2).fabric(), {})
    document = msgspec.json.decode(written(of, rail=1))
    assert [[port["rail"] for port in node["ports"]] for node in document["nodes"]] == [[1], [1]]
