"""Faults that files of ports show: grouped where they are everywhere, and rates that ports negotiated."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from tests.prove.hosts import Hosts, build_plan
from tests.prove.topologies import build
from trackbed.prove.node_outcomes import judge_nodes
from trackbed.prove.page.heat import compute_heat
from trackbed.prove.port_groups import group_ports
from trackbed.prove.report import CulpritReport, build_report

Place = tuple[str, int]
ALL = [(f"n{number}", rail) for number in range(1, 9) for rail in (0, 1)]


def judge_gids(places: Collection[Place]) -> list[tuple[str, str]]:
    """Return kind and evidence of what is blamed where these ports of eight nodes lack their GID."""
    report = build_report(Hosts(build_plan(8), without_gid=places).prove(rungs=("gid", "rdma_cm")))
    return [(culprit.kind, culprit.evidence) for culprit in report.culprits]


def test_a_gid_that_every_port_lacks_is_one_culprit_that_blames_each_node() -> None:
    proof = Hosts(build_plan(8), without_gid=ALL).prove()
    report = build_report(proof)
    [culprit] = report.culprits
    assert (culprit.where, culprit.evidence) == (
        "the fabric",
        "16 of 16 ports, such as n1 rail 0: rail0 has no GID of 10.64.0.0",
    )
    assert "`trackbed doctor --nodes n[1-8]`" in culprit.look
    assert report.unexplained == ()
    assert {outcome.state for outcome in judge_nodes(proof, report)} == {"blamed"}
    assert {port_heat.tone for port_heat in compute_heat(proof, "write_bw").values()} == {"fail"}


@pytest.mark.parametrize(
    ("places", "kinds"),
    [
        ([place for place in ALL if place[1]], ["rail"]),
        ([place for place in ALL if place[1] and place[0] != "n3"], ["rail"]),
        ([("n1", 0), ("n1", 1)], ["node"]),
        ([(f"n{number}", 1) for number in (5, 6, 7, 8)], ["leaf"]),
        ([("n1", 0), ("n2", 0), ("n7", 1)], ["port", "port", "port"]),
    ],
    ids=["rail", "nearly all of a rail", "node", "leaf", "single ports"],
)
def test_gids_that_are_missing_together_are_one_culprit(places: Collection[Place], kinds: list[str]) -> None:
    blamed = judge_gids(places)
    assert [kind for kind, _ in blamed] == kinds
    assert all(("ports, such as" in evidence) is (kind != "port") for kind, evidence in blamed)


def test_nodes_that_have_their_gids_are_not_blamed_with_their_rail() -> None:
    topology = build(8, 8, 2)
    [group] = group_ports(topology, dict.fromkeys(range(1, 15, 2), 1.0), range(16))
    assert (group.culprit.kind, group.culprit.nodes, group.ports_read) == ("rail", (0, 1, 2, 3, 4, 5, 6), 8)


@dataclass
class TrainedHosts(Hosts):
    """Hosts whose ports have negotiated other rates, or other NICs."""

    rates: Mapping[Place, int] = field(default_factory=dict)
    boards: Mapping[str, str] = field(default_factory=dict)

    def _read_files(self, node: str, patterns: Sequence[str]) -> object:
        answer = super()._read_files(node, patterns)
        if isinstance(answer, dict) and any("/rail" in pattern for pattern in patterns):
            rail = int(patterns[0].split("/rail")[1][0])
            device = f"/sys/class/infiniband/rail{rail}"
            answer["files"][f"{device}/board_id"] = self.boards.get(node, "MT_0000000838")
            answer["files"][f"{device}/ports/1/rate"] = f"{self.rates.get((node, rail), 400)} Gb/sec"
        return answer


def blame_rates(hosts: Hosts) -> list[CulpritReport]:
    return list(build_report(hosts.prove()).culprits)


def test_a_port_that_negotiated_less_than_the_others_of_its_rail_is_blamed() -> None:
    hosts = TrainedHosts(build_plan(8), gbps={("n2", 0): 97}, rates={("n2", 0): 100})
    proof = hosts.prove()
    report = build_report(proof)
    [culprit] = report.culprits
    assert (report.status, culprit.rung, culprit.where, culprit.loss) == (1, "write_bw", "rail 0 of n2", 0.75)
    assert culprit.evidence == "negotiated 100 Gb/s, 7 others of rail 0 have 400 Gb/s"
    assert "`ethtool` of these ports on n2" in culprit.look
    assert report.unexplained == ()
    states = {outcome.node: outcome.state for outcome in judge_nodes(proof, report)}
    assert {node for node, state in states.items() if state != "proved"} == {"n2"}


def test_a_leaf_whose_ports_negotiated_less_is_one_culprit() -> None:
    slow = [(f"n{number}", 1) for number in range(1, 5)]
    hosts = TrainedHosts(build_plan(12), gbps=dict.fromkeys(slow, 195), rates=dict.fromkeys(slow, 200))
    [culprit] = blame_rates(hosts)
    assert (culprit.kind, culprit.leaves, culprit.nodes) == ("leaf", ("leaf-u0-r1",), ("n1", "n2", "n3", "n4"))
    assert culprit.evidence.startswith("4 of 4 ports, such as n1 rail 1: negotiated 200 Gb/s, 8 others")


def test_ports_with_another_nic_or_without_a_majority_are_not_compared() -> None:
    slow = {("n2", rail): 200 for rail in (0, 1)}
    assert blame_rates(TrainedHosts(build_plan(8), rates=slow, gbps=dict.fromkeys(slow, 195), boards={"n2": "X"})) == []
    assert blame_rates(TrainedHosts(build_plan(2), rates=slow, gbps=dict.fromkeys(slow, 195))) == []


def test_a_rate_that_the_fabric_states_is_not_compared_with_what_ports_negotiate() -> None:
    plan = build_plan(8)._replace(rate_gbps=90.0)
    ports = dict.fromkeys(ALL, 88.0)
    assert blame_rates(TrainedHosts(plan, gbps=ports, rates={("n2", 0): 100})) == []


def test_without_a_rung_that_measures_a_rate_none_is_judged() -> None:
    hosts = TrainedHosts(build_plan(8), rates={("n2", 0): 100})
    assert build_report(hosts.prove(rungs=("ping", "gid"))).culprits == ()
