"""Proofs of simulated hosts: results, gates, culprits and reports, and that nothing is lost without being told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.prove.hosts import Hosts, build_plan
from trackbed.prove.node_outcomes import judge_nodes
from trackbed.prove.pod_ends import NO_DEVICE, find_ends
from trackbed.prove.proof import Proof
from trackbed.prove.report import ProofReport, build_report
from trackbed.prove.rounds import plan_screen
from trackbed.prove.rungs import GID, LADDER
from trackbed.prove.rungs.rung import PathEnd
from trackbed.prove.topology import build_topology

LEAF = [(f"n{number}", 0) for number in range(1, 5)]
"""The ports of the first leaf."""


def list_verdicts(proof: Proof, rung: str) -> Counter[str]:
    return Counter(result.finding.verdict for result in proof.results if result.rung == rung)


def name_culprits(report: ProofReport) -> list[tuple[str, str]]:
    return [(culprit.rung, culprit.where) for culprit in report.culprits]


def test_a_sound_fabric_is_proved_on_every_rung() -> None:
    report = build_report(Hosts(build_plan(12)).prove())
    assert (report.status, report.culprits, report.unexplained, report.untested) == (0, (), (), ())
    assert report.summary == "proved: 168 tests planned: 168 pass, 0 warn, 0 fail, 0 unknown, 0 not-tested"
    assert [(rung.rung, rung.transport, rung.planned, rung.median) for rung in report.rungs] == [
        ("ping", "ip", 36, 0.1),
        ("gid", "rdma", 24, None),
        ("rdma_cm", "rdma", 36, None),
        ("write_bw", "rdma", 36, 390.0),
        ("write_lat", "rdma", 36, 2.0),
    ]


def test_what_is_low_alone_is_not_called_broken() -> None:
    report = build_report(Hosts(build_plan(4), gbps={("n2", 1): 372}).prove())
    assert (report.status, report.culprits) == (1, ())
    assert report.summary == "low: 56 tests planned: 53 pass, 3 warn, 0 fail, 0 unknown, 0 not-tested"


def test_ip_alone_is_no_proof_of_rdma() -> None:
    report = build_report(Hosts(build_plan(8)).prove(rungs=("ping", GID)))
    assert report.status == 3
    assert report.summary.endswith("0 not-tested; by IP alone, no traffic of RDMA was tested")


def test_a_slow_port_is_named_by_the_rates_of_tcp_streams() -> None:
    rungs = ("ping", "tcp_bw")
    sound = build_report(Hosts(build_plan(12)).prove(rungs=rungs))
    assert (sound.status, sound.summary.endswith("by IP alone, no traffic of RDMA was tested")) == (3, True)
    assert [(rung.rung, rung.transport, rung.verdicts["pass"], rung.unit) for rung in sound.rungs] == [
        ("ping", "ip", 36, "ms"),
        ("tcp_bw", "ip", 36, "Gb/s"),
    ]
    report = build_report(Hosts(build_plan(12), gbps={("n3", 1): 200}).prove(rungs=rungs))
    assert (report.status, name_culprits(report)) == (1, [("tcp_bw", "rail 1 of n3")])


def test_a_leaf_with_a_small_mtu_is_blamed_alone_and_stops_the_rungs_above() -> None:
    proof = Hosts(build_plan(12), small_mtu=LEAF).prove()
    report = build_report(proof)
    assert (report.status, name_culprits(report)) == (1, [("ping", "leaf leaf-u0-r0")])
    assert "4200 bytes are lost and 84 arrive: an MTU on the path is too small" in report.culprits[0].evidence
    failed = list_verdicts(proof, "ping")["fail"]
    assert [list_verdicts(proof, rung)["not-tested"] for rung in ("rdma_cm", "write_bw", "write_lat")] == [failed] * 3
    assert {entry.reason for entry in report.untested} == {"ping did not pass"}


def test_a_silent_port_is_blamed_alone() -> None:
    report = build_report(Hosts(build_plan(12), silent=[("n3", 1)]).prove())
    assert name_culprits(report) == [("ping", "rail 1 of n3")]
    assert report.unexplained == ()


def test_a_port_without_its_gid_is_named_and_only_its_rdma_is_not_tested() -> None:
    proof = Hosts(build_plan(12), without_gid=[("n5", 1)]).prove()
    report = build_report(proof)
    assert name_culprits(report) == [("gid", "rail 1 of n5")]
    assert "trackbed doctor --nodes n5" in report.culprits[0].look
    assert (list_verdicts(proof, "ping")["pass"], list_verdicts(proof, "write_bw")["not-tested"]) == (36, 3)
    assert [(entry.nodes, entry.tests) for entry in report.untested] == [(("n5",), 9)]


def test_a_pod_without_a_rail_is_named_and_its_other_rails_are_tested() -> None:
    proof = Hosts(build_plan(8), without_rail=[("n5", 1)]).prove(in_pods=True)
    report = build_report(proof)
    assert name_culprits(report) == [("gid", "rail 1 of n5")]
    assert report.culprits[0].evidence == "its pod has no address of rail 1 (10.66.0.0/15)"
    assert [(entry.nodes, entry.tests) for entry in report.untested] == [(("n5",), 12)]


def test_pods_that_do_not_say_what_they_have_are_not_tested_and_not_blamed() -> None:
    proof = Hosts(build_plan(8)).prove(in_pods=True, lost=lambda sheet, node, _: sheet.title == "pods" and node == "n2")
    report = build_report(proof)
    assert (report.status, report.culprits) == (3, ())
    assert {entry.nodes for entry in report.untested} == {("n2",)}


@pytest.mark.parametrize("links", [None, 3, {}, [None, {"address": 3}], [{"address": "x"}, {"rdma": []}]])
def test_a_pod_may_answer_anything(links: object) -> None:
    assert find_ends(build_plan(2).common, "n1", {"links": links}) == {}


@dataclass
class Doubles(Hosts):
    """Hosts of which one pod has the address of another's on a rail."""

    def _list_links(self, node: str) -> Iterator[Mapping[str, str]]:
        links = list(super()._list_links("n1" if node == "n5" else node))
        yield from [links[0], *list(super()._list_links(node))[1:]]


def test_pods_with_one_address_are_both_named_and_neither_is_blamed_as_one_may_have_made_it_up() -> None:
    proof = Doubles(build_plan(8)).prove(in_pods=True)
    report = build_report(proof)
    assert report.culprits == ()
    outcomes = {outcome.node: outcome for outcome in judge_nodes(proof, report)}
    assert {name: outcome.state for name, outcome in outcomes.items() if outcome.state != "proved"} == {
        "n1": "unknown",
        "n5": "unknown",
    }
    assert outcomes["n1"].message.endswith("ping: its pod has the address 10.64.0.0, as that of n5 has")
    assert outcomes["n5"].message.endswith("ping: its pod has the address 10.64.0.0, as that of n1 has")


@pytest.mark.parametrize(
    ("scope", "expected"),
    [(scope, ["fd00:64::1"]) for scope in ("", "%eth0", "%\x00", "%-x y")] + [(f"%{'A' * 900_000}", [])],
    ids=["none", "interface", "zero byte", "blank", "too long"],
)
def test_an_address_of_a_pod_reaches_others_without_what_a_pod_writes_beside_it(
    scope: str, expected: list[str]
) -> None:
    plan = build_plan(2, ip="fd00:64::/32")
    answer = {"links": [{"netdev": "net1", "address": f"fd00:64::1{scope}", "rdma": "mlx5_0"}]}
    assert [end.address for end in find_ends(plan.common, "n1", answer).values()] == expected


def test_a_pod_without_the_device_of_an_address_has_its_interface_alone() -> None:
    answer = {"links": [{"netdev": "net1", "address": "10.64.0.1", "rdma": None}]}
    assert find_ends(build_plan(2).common, "n1", answer)[0] == PathEnd("n1", 0, "net1", NO_DEVICE, "10.64.0.1")


@pytest.mark.parametrize("name", ["m" * 64, "..", "../../mlx5_0", "mlx5_0\n", "m\u0660"])
def test_a_name_that_no_device_can_have_is_none(name: str) -> None:
    answer = {"links": [{"netdev": name, "address": "10.64.0.1", "rdma": name}]}
    assert find_ends(build_plan(2).common, "n1", answer)[0] == PathEnd("n1", 0, "", NO_DEVICE, "10.64.0.1")


def test_a_slow_port_is_blamed_by_its_rate_with_the_counters_that_rose() -> None:
    hosts = Hosts(build_plan(12), gbps={("n6", 0): 200}, counters={("n6", 0): 41})
    report = build_report(hosts.prove())
    assert name_culprits(report) == [("write_bw", "rail 0 of n6")]
    assert report.culprits[0].evidence == (
        "3 of 3 tests failed, such as 50% of the ports' 400 Gb/s; counters that rose: out_of_sequence +41 (n6 rail 0)"
    )
    assert [counter.kind for counter in report.counters] == ["retransmits"]
    assert report.repeats >= 3


@pytest.mark.parametrize(("rise", "is_shown"), [(80, False), (81, True)])
def test_a_counter_that_rises_at_every_port_is_no_evidence(rise: int, is_shown: bool) -> None:
    usual = {(f"n{number}", rail): 40 for number in range(1, 13) for rail in range(2)}
    hosts = Hosts(build_plan(12), gbps={("n6", 0): 200}, counters=usual | {("n6", 0): rise})
    evidence = build_report(hosts.prove()).culprits[0].evidence
    assert evidence.partition("; counters that rose: ")[2] == f"out_of_sequence +{rise} (n6 rail 0)" * is_shown


def test_a_rate_that_the_fabric_states_counts_and_not_what_ports_negotiate() -> None:
    stated = build_plan(12)._replace(rate_gbps=200.0)
    slow = {(f"n{number}", rail): 195.0 for number in range(1, 13) for rail in range(2)}
    assert build_report(Hosts(stated, gbps=slow).prove()).status == 0
    report = build_report(Hosts(stated, gbps=slow | {("n6", 0): 100.0}).prove())
    assert name_culprits(report) == [("write_bw", "rail 0 of n6")]
    assert "such as 50% of the ports' 200 Gb/s" in report.culprits[0].evidence


def test_a_share_of_the_rate_names_what_is_slower_than_it_and_nothing_else() -> None:
    slow = {("n2", 0): 60.0, ("n6", 0): 20.0}
    report = build_report(Hosts(build_plan(12), gbps=slow).prove(share=0.1))
    assert name_culprits(report) == [("write_bw", "rail 0 of n6")]
    assert "such as 50% of 0.1 × the ports' 400 Gb/s" in report.culprits[0].evidence
    assert report.summary.endswith("; at 0.1 of the ports' rate")
    assert next(rung.median for rung in report.rungs if rung.rung == "write_bw") == 40


def test_no_share_is_sent_where_the_rate_is_not_known() -> None:
    hosts = Hosts(build_plan(12), without_rate={("n6", 0)})
    report = build_report(hosts.prove(share=0.1))
    assert (report.status, report.culprits) == (3, ())
    assert [(entry.rungs, entry.tests, entry.nodes, entry.reason) for entry in report.untested] == [
        (("write_bw", "write_lat"), 6, ("n6",), "its rate is not known, so no share of it; state spec.rate")
    ]


def test_a_missing_program_is_no_failure_and_costs_no_round() -> None:
    hosts = Hosts(build_plan(8), missing={f"n{number}": ["ib_write_bw"] for number in range(1, 9)})
    report = build_report(hosts.prove())
    assert (report.status, report.culprits) == (3, ())
    assert [(entry.rungs, entry.tests, entry.reason) for entry in report.untested] == [
        (("write_bw", "write_lat"), 48, "it has no ib_write_bw: install perftest")
    ]
    assert [sheet.title for sheet in hosts.sheets] == ["files", "ping", "rdma_cm", "files"]


def test_a_host_that_is_not_reached_is_told_once_for_all_rungs_and_blames_nobody() -> None:
    report = build_report(Hosts(build_plan(8), unreachable={"n8": "ssh does not reach it"}).prove())
    assert (report.status, report.culprits, report.unexplained) == (3, (), ())
    assert [(entry.rungs, entry.nodes, entry.reason) for entry in report.untested] == [
        (LADDER, ("n8",), "ssh does not reach it")
    ]


def test_no_host_at_all_is_unknown() -> None:
    plan = build_plan(2)
    report = build_report(Hosts(plan, unreachable={node.name: "refused" for node in plan.nodes}).prove())
    assert (report.status, sum(rung.verdicts["not-tested"] for rung in report.rungs)) == (3, 28)


def test_rails_that_the_fabric_isolates_pass_by_silence_where_each_is_heard_on_its_own() -> None:
    proof = Hosts(build_plan(4, cross_rail="isolated"), isolated=True).prove("matrix")
    assert (list_verdicts(proof, "ping"), list_verdicts(proof, "write_bw")) == ({"pass": 8}, {"pass": 4})


def test_silence_shows_no_isolation_of_a_dead_port_nor_of_one_that_met_it_on_its_own_rail() -> None:
    hosts = Hosts(build_plan(4, cross_rail="isolated"), isolated=True, silent=[("n1", 0)])
    results = [result for result in hosts.prove("matrix", ("ping",)).results if result.test.is_isolated]
    assert Counter(result.finding.verdict for result in results) == {"pass": 2, "unknown": 2}


def test_rails_that_reach_each_other_against_the_fabric_fail() -> None:
    report = build_report(Hosts(build_plan(4, cross_rail="isolated")).prove("matrix", ("ping",)))
    assert (report.status, len(report.unexplained)) == (1, 4)
    assert report.unexplained[0].reason == "n4 to n2 replies, and the Fabric isolates the rails"


def test_a_fabric_without_addresses_is_refused() -> None:
    plan = build_plan(2)
    with pytest.raises(ValueError, match="plans no addresses"):
        Hosts(plan._replace(common=plan.common._replace(scheme="none"))).prove()


@given(st.data())
def test_planned_is_tested_and_not_tested_under_any_loss(data: st.DataObject) -> None:
    plan = build_plan(data.draw(st.integers(1, 9), "nodes"), 3)
    names = [node.name for node in plan.nodes]
    unreachable = dict.fromkeys(data.draw(st.sets(st.sampled_from(names)), "unreachable"), "refused")
    lost = data.draw(st.sets(st.tuples(st.sampled_from(["files", "ping", "write_bw"]), st.integers(0, 40))), "lost")
    silent = data.draw(st.sets(st.tuples(st.sampled_from(names), st.integers(0, 1)), max_size=3), "silent")
    hosts = Hosts(plan, silent=silent, unreachable=unreachable)
    report = build_report(hosts.prove(lost=lambda sheet, _, step_id: (sheet.title, step_id) in lost))
    tests = sum(len(tests.a) for tests in plan_screen(build_topology(plan)))
    planned = tests or 2  # the ports of a node alone, which have no partner
    assert {rung.rung: rung.planned for rung in report.rungs if rung.rung != GID} == {
        rung: planned for rung in LADDER if rung != GID
    }
    assert all(rung.planned == sum(rung.verdicts.values()) for rung in report.rungs)
    untested = sum(rung.verdicts["unknown"] + rung.verdicts["not-tested"] for rung in report.rungs)
    assert untested == sum(entry.tests for entry in report.untested)
    assert report.status != 0 or untested == 0
