"""Ports for which a mode has no partner: they count as not tested, and their node is not proved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.prove.hosts import Hosts, build_plan
from tests.prove.single_flows import SingleFlowHosts
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan
from trackbed.prove.node_outcomes import judge_nodes
from trackbed.prove.report import build_report

_HEAD = {"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric", "metadata": {"name": "f"}}
_SPEC = {"rails": 2, "nodesPerUnit": 4, "addressing": {"scheme": "point-to-point", "ipv4": "10.64.0.0/14"}}


def compute(nodes: Sequence[Mapping[str, object]], **spec: object) -> Plan:
    return compute_plan(Fabric.model_validate(_HEAD | {"spec": _SPEC | {"nodes": nodes} | spec}), {})


def list_unproved(hosts: Hosts, mode: str = "screen") -> tuple[int, list[tuple[tuple[str, ...], int, str]], set[str]]:
    """Return the status, what was not tested, and the nodes that are not proved."""
    proof = hosts.prove(mode)
    report = build_report(proof)
    unproved = {outcome.node for outcome in judge_nodes(proof, report) if outcome.state != "proved"}
    return report.status, [(entry.nodes, entry.tests, entry.reason) for entry in report.untested], unproved


def test_a_rail_that_one_node_alone_has_is_not_tested_and_not_failed() -> None:
    plan = compute([{"hosts": "n1"}, {"hosts": "h[1-5]", "ports": ["0000:18:00.0", None]}])
    reason = "no other chosen node has rail 1, so its port has no partner; choose another node that has it"
    assert list_unproved(Hosts(plan, silent=[("n1", 1)])) == (3, [(("n1",), 4, reason)], {"n1"})


def test_one_node_alone_is_unknown() -> None:
    status, untested, unproved = list_unproved(Hosts(build_plan(1, rails=1)))
    assert (status, [entry[:2] for entry in untested], unproved) == (3, [(("n1",), 4)], {"n1"})


def test_one_node_alone_that_is_not_reached_has_that_reason() -> None:
    untested = list_unproved(Hosts(build_plan(1), unreachable={"n1": "refused"}))[1]
    assert untested == [(("n1",), 10, "refused")]


def test_a_unit_alone_in_its_pod_has_no_partner_in_a_cover() -> None:
    plan = compute([{"hosts": "n[1-12]"}], uplinks={"spines": 4, "links": 1, "unitsPerPod": 2})
    alone = ("n10", "n11", "n12", "n9")
    status, untested, unproved = list_unproved(SingleFlowHosts(plan, silent=[("n10", 0)]), "cover")
    assert (status, [entry[:2] for entry in untested], unproved) == (3, [(alone, 16), (alone, 16)], {*alone})
    assert untested[0][2] == (
        "mode cover tests between leaves, and has no partner for its port of rail 0; use --mode screen"
    )


@pytest.mark.parametrize("nodes", [3, 5])
def test_a_node_that_rests_in_a_matrix_is_tested_on_its_rails(nodes: int) -> None:
    assert list_unproved(Hosts(build_plan(nodes, rails=1)), "matrix") == (0, [], set())
    assert list_unproved(Hosts(build_plan(nodes, rails=1), silent=[("n1", 0)]), "matrix")[2] >= {"n1"}


@dataclass
class IsolatedHosts(Hosts):
    """Hosts whose rails are isolated for rping, too."""

    isolated: bool = True

    def _run(self, node: str, step: Mapping[str, Any]) -> object:
        argv = step["argv"]
        if argv[0] == "rping" and "-c" in argv and argv[argv.index("-a") + 1] not in self._list_reached(argv):
            return {"status": 1, "stdout": "", "stderr": "cma event RDMA_CM_EVENT_UNREACHABLE"}
        return super()._run(node, step)

    def _list_reached(self, argv: Sequence[str]) -> set[str]:
        _, rail = self._ports[argv[argv.index("-I") + 1]]
        return {address for address, (_, other) in self._ports.items() if other == rail}


@pytest.mark.parametrize("nodes", [2, 3, 5])
def test_isolated_rails_of_an_odd_number_of_nodes_are_proved_by_a_matrix(nodes: int) -> None:
    plan = build_plan(nodes, cross_rail="isolated")
    assert list_unproved(IsolatedHosts(plan), "matrix") == (0, [], set())
