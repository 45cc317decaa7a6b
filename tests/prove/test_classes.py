"""Classes of tests: a path over spines is not compared with one within a leaf."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.prove.hosts import Hosts, build_plan
from trackbed.prove.report import build_report


@dataclass
class SpineHosts(Hosts):
    """Hosts whose latency is 2.0 us within a leaf, and 3.4 us over a spine."""

    late: tuple[str, str] = ("", "")
    """Two nodes between which it is twice as much."""

    def _run(self, node: str, step: Mapping[str, Any]) -> object:
        answer = super()._run(node, step)
        if "relay" not in step or step["argv"][0] != "ib_write_lat" or not isinstance(answer, dict):
            return answer
        partner, rail = self._ports[step["relay"]["target"]]
        leaves = {
            port.leaf for each in self.plan.nodes if each.name in {node, partner} for port in each.ports[rail:][:1]
        }
        document = json.loads(answer["stderr"])
        document["results"]["t_typical"] = (2.0 if len(leaves) == 1 else 3.4) * (1 + ({node, partner} == {*self.late}))
        return {**answer, "stderr": json.dumps(document)}


@pytest.mark.parametrize(("nodes", "unit_nodes", "mode"), [(12, 8, "full"), (40, 32, "screen"), (9, 4, "matrix")])
def test_paths_over_a_spine_are_not_late_for_being_longer_than_paths_within_a_leaf(
    nodes: int, unit_nodes: int, mode: str
) -> None:
    report = build_report(SpineHosts(build_plan(nodes, unit_nodes)).prove(mode))
    assert (report.status, report.unexplained) == (0, ())


@pytest.mark.parametrize(("pair", "reason"), [(("n1", "n2"), "4 us"), (("n1", "n12"), "6.8 us")])
def test_a_late_path_is_compared_with_those_of_its_kind(pair: tuple[str, str], reason: str) -> None:
    report = build_report(SpineHosts(build_plan(12, 8), late=pair).prove("full"))
    assert {entry.reason.partition(",")[0] for entry in report.unexplained} == {reason}


def test_the_baselines_of_a_mode_are_by_path() -> None:
    report = build_report(SpineHosts(build_plan(12, 8)).prove("full"))
    latencies = {(e.port_class.kind, e.port_class.path): e.median for e in report.baselines if e.unit == "us"}
    assert latencies == {("full", "near"): 2.0, ("full", "far"): 3.4}
