"""Slots are permanent, whatever nodes are added and removed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fabric.plan.wanted import Wanted
from trackbed.fabric.model.fabric import API_VERSION, FabricSpec
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.lock import assign_slots, merge_slots, render_lock
from trackbed.fabric.yaml_text import FABRIC_LAYOUT, render_mapping

NODES = st.sets(st.integers(0, 30), min_size=1)
HOSTS = st.one_of(
    st.from_regex(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,5}", fullmatch=True),
    st.sampled_from(
        ("no", "Y", "NULL", "nan", "nano", "off.example", "1e3", "0x10", "0o7", "1_0", "-", "k\u0131", "a: b", "a\n")
    ),
    st.text(),
)


def spec(*groups: dict[str, str], nodes_per_unit: int = 4) -> FabricSpec:
    return FabricSpec.model_validate(
        {
            "nodes": list(groups),
            "rails": "1",
            "nodesPerUnit": str(nodes_per_unit),
            "addressing": {"scheme": "point-to-point", "ipv4": "10.0.0.0/16"},
        }
    )


def slots(lock: dict[str, int], *groups: dict[str, str]) -> dict[str, int]:
    assigned, problems = assign_slots(spec(*groups), lock)
    assert problems == []
    return assigned


@given(NODES, NODES)
def test_addresses_stay_when_others_come_and_go(before: set[int], after: set[int]) -> None:
    want = Wanted({"scheme": "shared-subnet", "ipv4": "10.0.0.0/12"})
    old = compute_plan(want.fabric(",".join(f"n{n}" for n in before)), {})
    lock = merge_slots({}, {node.name: node.slot for node in old.nodes})
    new = compute_plan(want.fabric(",".join(f"n{n}" for n in after)), lock)
    for node in new.nodes:
        known = old.find_node(node.name)
        assert known is None or known.ports == node.ports


@given(NODES)
def test_the_lock_of_a_plan_changes_nothing_about_it(nodes: set[int]) -> None:
    fabric = Wanted({"scheme": "shared-subnet", "ipv4": "10.0.0.0/12"}).fabric(",".join(f"n{n}" for n in nodes))
    first = compute_plan(fabric, {})
    assert compute_plan(fabric, {node.name: node.slot for node in first.nodes}) == first


@given(st.dictionaries(HOSTS, st.integers(-1, 1 << 20)))
def test_a_lock_is_written_as_any_other_mapping(lock: dict[str, int]) -> None:
    document = {"apiVersion": API_VERSION, "kind": "FabricLock", "fabric": "train", "nodes": lock}
    assert render_lock("train", lock) == render_mapping(document, FABRIC_LAYOUT._replace(width=0))


def test_a_gap_without_owner_is_filled_first() -> None:
    assert slots({"a": 0, "b": 2}, {"hosts": "a,b,new"}) == {"a": 0, "b": 2, "new": 1}


def test_nodes_of_a_unit_get_slots_there_and_others_do_not() -> None:
    assert slots({}, {"hosts": "x[0-1]", "unit": "0"}, {"hosts": "y[0-1]"}) == {"x0": 0, "x1": 1, "y0": 4, "y1": 5}


def test_a_unit_takes_as_many_nodes_as_it_has_places() -> None:
    assert slots({}, {"hosts": "x[0-3]", "unit": "1"}) == {"x0": 4, "x1": 5, "x2": 6, "x3": 7}
    _, [problem] = assign_slots(spec({"hosts": "x[0-4]", "unit": "1"}), {})
    assert problem.code == "unit-full"


def test_a_node_that_the_lock_has_elsewhere_is_a_problem_not_a_move() -> None:
    assigned, [problem] = assign_slots(spec({"hosts": "x0", "unit": "1"}), {"x0": 0})
    assert (assigned, problem.code) == ({"x0": 0}, "unit-moved")


def test_a_lock_beyond_the_range_is_told_as_such() -> None:
    want = Wanted({"scheme": "point-to-point", "ipv4": "10.0.0.0/27"}, nodes=1)
    with pytest.raises(SpecError, match=r"has room for 8 nodes, 1 are wanted \(n0 has slot 8\)"):
        compute_plan(want.fabric(), {"n0": 8})
