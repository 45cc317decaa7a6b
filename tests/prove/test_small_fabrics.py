"""Fabrics with few nodes at a leaf: a screen has few values of each leaf and pair, and names causes all the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any

import pytest

from tests.prove.hosts import SOUND_GBPS, Hosts, build_plan
from trackbed.prove.report import ProofReport, build_report

NODES = [(4, 2), (6, 2), (8, 2), (12, 4), (12, 2)]
"""Nodes of a fabric, and of a unit."""


@dataclass
class SlowUplinkHosts(Hosts):
    """Hosts whose first unit is low towards the others on rail 1, the last one."""

    unit_nodes: int = 2
    busy_tests: int = 0
    """Tests within the first unit that are low by a busy moment."""

    def _run(self, node: str, step: Mapping[str, Any]) -> object:
        self.gbps, argv = {}, step["argv"]
        if argv[0] == "ib_write_bw" and "relay" in step:
            partner, _ = self._ports[step["relay"]["target"]]
            units = {(int(name[1:]) - 1) // self.unit_nodes for name in (node, partner)}
            if argv[2] == "rail1" and 0 in units:
                is_busy = len(units) == 1 and self.busy_tests > 0
                self.busy_tests -= is_busy
                self.gbps = {(node, 1): SOUND_GBPS * (0.85 if is_busy else 0.5)} if is_busy or len(units) > 1 else {}
        return super()._run(node, step)


def list_culprits(report: ProofReport) -> list[tuple[str, int | None, tuple[str, ...], tuple[str, ...]]]:
    """Kind, rail, nodes and leaves of what is blamed."""
    return [(culprit.kind, culprit.rail, culprit.nodes, culprit.leaves) for culprit in report.culprits]


@pytest.mark.parametrize(("nodes", "unit_nodes"), NODES)
def test_all_ports_of_a_leaf_are_the_leaf(nodes: int, unit_nodes: int) -> None:
    plan = build_plan(nodes, unit_nodes)
    small = [(f"n{number}", 1) for number in range(1, unit_nodes + 1)]
    assert list_culprits(build_report(Hosts(plan, small_mtu=small).prove())) == [
        ("leaf", 1, (), (plan.nodes[0].ports[1].leaf,))
    ]


@pytest.mark.parametrize(("nodes", "unit_nodes"), NODES)
def test_one_of_two_ports_of_a_leaf_is_the_port(nodes: int, unit_nodes: int) -> None:
    hosts = Hosts(build_plan(nodes, unit_nodes), gbps={("n2", 1): SOUND_GBPS / 2})
    assert list_culprits(build_report(hosts.prove())) == [("port", 1, ("n2",), ())]


ONE_RAIL = [(3, 1), (4, 1), (4, 2), (4, 4), (5, 5), (6, 3), (8, 2)]
"""Nodes of a fabric with one rail, and of a unit: a port is in up to two thirds of all tests."""


@pytest.mark.parametrize("share", [0.5, 0.85])
@pytest.mark.parametrize(("nodes", "unit_nodes"), ONE_RAIL)
def test_a_port_of_the_only_rail_is_not_the_rail(nodes: int, unit_nodes: int, share: float) -> None:
    hosts = Hosts(build_plan(nodes, unit_nodes, rails=1), gbps={("n2", 0): SOUND_GBPS * share})
    assert list_culprits(build_report(hosts.prove())) == [("port", 0, ("n2",), ())]


@pytest.mark.parametrize(("nodes", "unit_nodes"), ONE_RAIL)
def test_all_ports_of_the_only_rail_are_the_rail(nodes: int, unit_nodes: int) -> None:
    plan = build_plan(nodes, unit_nodes, rails=1)
    slow = {(node.name, 0): SOUND_GBPS * 0.5 for node in plan.nodes}
    assert list_culprits(build_report(Hosts(plan, gbps=slow).prove())) == [("rail", 0, (), ())]


@pytest.mark.parametrize(("nodes", "unit_nodes"), NODES)
def test_a_third_leaf_tells_an_uplink_from_a_path(nodes: int, unit_nodes: int) -> None:
    plan = build_plan(nodes, unit_nodes)
    report = build_report(SlowUplinkHosts(plan, unit_nodes=unit_nodes).prove())
    first, second = plan.nodes[0].ports[1].leaf, plan.nodes[unit_nodes].ports[1].leaf
    is_one_of_two = nodes == 2 * unit_nodes
    assert list_culprits(report) == [("path", 1, (), (first, second)) if is_one_of_two else ("uplink", 1, (), (first,))]
    assert report.unexplained == ()


def test_one_busy_moment_makes_no_leaf_of_an_uplink() -> None:
    plan = build_plan(4, 2)
    report = build_report(SlowUplinkHosts(plan, busy_tests=1).prove())
    leaves = tuple(plan.nodes[index].ports[1].leaf for index in (0, 2))
    assert list_culprits(report) == [("path", 1, (), leaves)]


def test_two_slow_nodes_are_the_nodes_and_not_their_leaves() -> None:
    slow: Mapping[tuple[str, int], float] = {(f"n{n}", rail): SOUND_GBPS / 2 for n in (1, 2) for rail in (0, 1)}
    report = build_report(Hosts(build_plan(6, 2), gbps=slow).prove())
    assert {culprit.kind for culprit in report.culprits} == {"node"}
    assert {culprit.nodes for culprit in report.culprits} == {("n1",), ("n2",)}


def test_a_pair_that_was_measured_alone_is_not_the_rail_unless_the_rail_has_no_other() -> None:
    low = 0.78 * SOUND_GBPS
    report = build_report(Hosts(build_plan(4, 2), small_mtu=[("n1", 1), ("n2", 1)], gbps={("n3", 1): low}).prove())
    assert [(culprit.kind, culprit.rung) for culprit in report.culprits] == [("leaf", "ping")]
    assert report.undecided == ("n3 rail 1 (write_bw)", "n4 rail 1 (write_bw)")
    whole = build_report(Hosts(build_plan(2, 1), gbps={("n2", 1): low}).prove())
    assert [(culprit.kind, culprit.rail) for culprit in whole.culprits] == [("rail", 1)]


@pytest.mark.parametrize("slow", ["n1", "n3", "n4"])
def test_a_port_that_is_in_all_slow_tests_of_its_rail_is_not_the_rail(slow: str) -> None:
    plan = build_plan(4, 2, rails=1)
    report = build_report(Hosts(plan, without_gid=[("n2", 0)], gbps={(slow, 0): 0.85 * SOUND_GBPS}).prove())
    blamed = [(culprit.kind, culprit.rung, culprit.nodes) for culprit in report.culprits]
    assert blamed == [("port", "gid", ("n2",)), ("port", "write_bw", (slow,))]


@dataclass
class BusyHosts(Hosts):
    """Hosts of which the first tests of write_bw are low by a busy moment."""

    busy_tests: int = 0

    def _run(self, node: str, step: Mapping[str, Any]) -> object:
        self.gbps = {}
        if step["argv"][0] == "ib_write_bw" and "relay" in step:
            self.gbps = {(node, 0): SOUND_GBPS * 0.8} if self.busy_tests > 0 else {}
            self.busy_tests -= 1
        return super()._run(node, step)


@pytest.mark.parametrize(("nodes", "unit_nodes", "cleared"), [(2, 2, 3), (3, 2, 0), (4, 2, 0), (4, 4, 2), (5, 5, 2)])
def test_a_rail_of_few_ports_is_not_blamed_for_a_busy_moment(nodes: int, unit_nodes: int, cleared: int) -> None:
    """A test within a leaf that was repeated has the value of its repeat."""
    tests = 3 * (nodes // 2)
    report = build_report(BusyHosts(build_plan(nodes, unit_nodes, rails=1), busy_tests=tests).prove())
    assert (report.culprits, report.undecided) == ((), ())
    assert [row.verdicts["fail"] for row in report.rungs if row.rung == "write_bw"] == [tests - cleared]


WIDE = [(6, 2), (7, 2), (8, 3), (10, 3), (12, 4)]
"""Nodes of a leaf, and how many of their ports are slow: in a screen, most ports have mostly low values."""


@pytest.mark.parametrize("rails", [1, 2])
@pytest.mark.parametrize(("nodes", "slow"), WIDE)
def test_some_slow_ports_of_a_rail_are_the_ports_and_not_the_rail(nodes: int, slow: int, rails: int) -> None:
    plan = build_plan(nodes, 32, rails)
    for chosen in islice(combinations([node.name for node in plan.nodes], slow), 15):
        hosts = Hosts(plan, gbps={(name, 0): SOUND_GBPS / 2 for name in chosen})
        report = build_report(hosts.prove(rungs=("gid", "write_bw")))
        assert sorted(list_culprits(report)) == sorted(("port", 0, (name,), ()) for name in chosen)
        assert (report.undecided, report.unexplained) == ((), ())


@pytest.mark.parametrize("nodes", [6, 11, 16])
def test_a_whole_rail_of_one_leaf_is_still_the_rail(nodes: int) -> None:
    plan = build_plan(nodes, 32)
    slow = {(node.name, 1): SOUND_GBPS * 0.85 for node in plan.nodes}
    assert list_culprits(build_report(Hosts(plan, gbps=slow).prove())) == [("rail", 1, (), ())]


@dataclass
class OneBadPairHosts(SlowUplinkHosts):
    """Hosts with a slow uplink, of which two at its leaf do not reach each other on rail 1 either."""

    def _run(self, node: str, step: Mapping[str, Any]) -> object:
        argv = step["argv"]
        if argv[0] == "ib_write_bw" and "relay" in step and argv[2] == "rail1":
            partner, _ = self._ports[step["relay"]["target"]]
            if {node, partner} == {"n2", "n3"}:
                return {"status": 1, "stdout": "", "stderr": "Completion with error: status 12"}
        return super()._run(node, step)


def test_an_uplink_does_not_explain_a_test_within_its_leaf() -> None:
    report = build_report(OneBadPairHosts(build_plan(12, 4), unit_nodes=4).prove())
    assert [culprit.kind for culprit in report.culprits] == ["uplink"]
    assert report.culprits[0].evidence.startswith("4 of 4 tests failed")
    assert [entry.where for entry in report.unexplained] == ["n2 rail 1 to n3 rail 1"]


@pytest.mark.parametrize("slow", [("n1", "n2"), ("n2", "n5"), ("n4", "n5")])
def test_two_slow_ports_of_a_leaf_that_lost_a_node_are_not_the_leaf(slow: tuple[str, str]) -> None:
    hosts = Hosts(build_plan(5, 32, rails=4), unreachable={"n3": "lost"}, gbps={(name, 0): 195 for name in slow})
    report = build_report(hosts.prove(rungs=("gid", "write_bw")))
    assert sorted(list_culprits(report)) == [("port", 0, (name,), ()) for name in slow]
