"""A plan written for machines reads back as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fabric.plan.wanted import Wanted
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.node_document import decode_node, encode_node, parse_node, to_node_document
from trackbed.fabric.plan.plan import Plan
from trackbed.fabric.plan.plan_file import decode_plan, encode_plan, is_plan

FABRIC = Path(__file__).parents[3] / "examples" / "shared-subnet.yaml"
POINT_TO_POINT = {"scheme": "point-to-point", "ipv4": "10.0.0.0/24"}


def written(of: Plan, rail: int | None = None) -> bytes:
    return encode_plan(of, of.nodes, rail)


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_anything_else_is_refused_with_a_code(raw: bytes) -> None:
    with pytest.raises(SpecError) as caught:
        decode_node(raw)
    assert [problem.code for problem in caught.value.problems] == ["bad-node-plan"]
    with pytest.raises(SpecError) as caught:
        decode_plan(raw)
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
    assert decode_plan(written(of)) == of._replace(warnings=())


def test_a_node_is_written_with_a_line_for_each_value() -> None:
    node = compute_plan(Wanted(POINT_TO_POINT, nodes=1).fabric(), {}).nodes[0]
    assert encode_node(node) == msgspec.json.format(msgspec.json.encode(to_node_document(node)), indent=1)


def test_a_plan_is_told_from_a_fabric_however_it_is_indented() -> None:
    raw = written(compute_plan(Wanted(POINT_TO_POINT, nodes=1).fabric(), {}))
    assert is_plan(raw)
    assert is_plan(msgspec.json.format(raw, indent=8))
    assert not is_plan(b'{"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric"}')
    assert not is_plan(b"apiVersion: trackbed.dev/v1alpha1\n")


def test_a_plan_of_one_rail_is_no_plan_of_a_host() -> None:
    with pytest.raises(SpecError, match=r"has rail 1 alone; write it with .* without --rail"):
        decode_plan(written(compute_plan(Wanted(POINT_TO_POINT, nodes=2).fabric(), {}), rail=1))


@given(st.data())
def test_a_plan_with_a_value_of_another_kind_is_refused_or_read(data: st.DataObject) -> None:
    node = compute_plan(Wanted({"scheme": "point-to-point", "ipv4": "10.0.0.0/24"}, nodes=1).fabric(), {}).nodes[0]
    document = msgspec.json.decode(encode_node(node))
    part = data.draw(st.sampled_from([document["fabric"], document["node"], document["node"]["ports"][0]]))
    part[data.draw(st.sampled_from(sorted(part)))] = data.draw(st.sampled_from([None, -1, "x", [], {}, [[]], {"a": 1}]))
    try:
        decode_node(msgspec.json.encode(document))
    except SpecError as error:
        assert error.problems[0].code == "bad-node-plan"  # noqa: PT017 - either outcome is right


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"rail": 9}, "a port on a rail that the fabric does not have", id="no such rail"),
        pytest.param({"rail": -1}, "a port on a rail that the fabric does not have", id="rail below 0"),
        pytest.param({"ipv4": {"address": "10.0.0.0/33"}}, "no address with prefix length", id="long prefix"),
        pytest.param({"ipv4": {"address": "10.0.0.0/-1"}}, "no address with prefix length", id="prefix below 0"),
    ],
)
def test_a_port_that_no_fabric_has_is_refused(change: dict[str, object], message: str) -> None:
    plan = compute_plan(Wanted(POINT_TO_POINT, nodes=1).fabric(), {})
    for raw, read in ((encode_node(plan.nodes[0]), decode_node), (written(plan), decode_plan)):
        document = msgspec.json.decode(raw)
        (document.get("node") or document["nodes"][0])["ports"][0].update(change)
        with pytest.raises(SpecError, match=message):
            read(msgspec.json.encode(document))


@pytest.mark.parametrize("read", [decode_node, decode_plan])
def test_deep_nesting_is_refused(read: Callable[[bytes], object]) -> None:
    with pytest.raises(SpecError):
        read(b'{"fabric":' + b"[" * 100_000)


def test_one_rail_can_be_written_alone() -> None:
    of = compute_plan(Wanted({"scheme": "point-to-point", "ipv4": "10.0.0.0/24"}, nodes=2).fabric(), {})
    document = msgspec.json.decode(written(of, rail=1))
    assert [[port["rail"] for port in node["ports"]] for node in document["nodes"]] == [[1], [1]]


def drop_nulls(document: object) -> object:
    """What the API server leaves of a JSON merge patch: no key whose value is null, in arrays neither."""
    if isinstance(document, dict):
        return {key: drop_nulls(value) for key, value in document.items() if value is not None}
    return [drop_nulls(item) for item in document] if isinstance(document, list) else document


def test_a_plan_reads_back_without_the_keys_that_a_merge_patch_deletes() -> None:
    (node, *_) = compute_plan(load_fabric(FABRIC.read_bytes(), "x").fabric, {}).nodes
    document = json.loads(encode_node(node))
    assert drop_nulls(document) != document
    assert parse_node(drop_nulls(document)) == node
