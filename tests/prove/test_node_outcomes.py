"""The outcome of a proof for each node: proved, blamed, or unknown with the reason."""

import pytest

from tests.prove.hosts import Hosts, build_plan
from trackbed.prove.node_outcomes import NodeOutcome, judge_nodes
from trackbed.prove.report import build_report


def judge(hosts: Hosts, *rungs: str) -> dict[str, NodeOutcome]:
    proof = hosts.prove(rungs=rungs) if rungs else hosts.prove()
    return {outcome.node: outcome for outcome in judge_nodes(proof, build_report(proof))}


def list_states(outcomes: dict[str, NodeOutcome]) -> dict[str, list[str]]:
    states: dict[str, list[str]] = {}
    for name, outcome in outcomes.items():
        states.setdefault(f"{outcome.state} {outcome.reason}", []).append(name)
    return states


def test_sound_nodes_are_proved_with_their_slowest_rail() -> None:
    outcomes = judge(Hosts(build_plan(4)))
    assert list_states(outcomes) == {"proved Passed": ["n1", "n2", "n3", "n4"]}
    assert outcomes["n1"].message == ("26 of 26 tests passed; write_bw at least 390 Gb/s (98% of the rate), on rail 0")


def test_a_slow_port_blames_its_node_and_its_partners_are_proved_by_their_other_tests() -> None:
    outcomes = judge(Hosts(build_plan(12), gbps={("n3", 1): 200}))
    states = list_states(outcomes)
    assert states["blamed Blamed"] == ["n3"]
    assert len(states["proved Passed"]) == 11
    assert outcomes["n3"].message.startswith("rail 1 of n3 (write_bw): ")
    assert "trackbed doctor" in outcomes["n3"].message


def test_a_silent_port_leaves_its_partners_proved() -> None:
    states = list_states(judge(Hosts(build_plan(12), silent=[("n5", 0)])))
    assert states == {
        "blamed Blamed": ["n5"],
        "proved Passed": [f"n{number}" for number in range(1, 13) if number != 5],
    }


def test_a_node_that_was_not_reached_is_unknown_and_its_partners_are_proved() -> None:
    outcomes = judge(Hosts(build_plan(12), unreachable={"n12": "ssh does not reach it"}))
    assert list_states(outcomes)["unknown NotTested"] == ["n12"]
    assert outcomes["n12"].message.endswith("ping: ssh does not reach it")


def test_nodes_of_a_leaf_that_is_blamed_are_not_judged() -> None:
    hosts = Hosts(build_plan(12, rails=1), small_mtu=[(f"n{number}", 0) for number in range(1, 5)])
    outcomes = judge(hosts, "ping")
    assert list_states(outcomes)["unknown NotJudged"] == ["n1", "n2", "n3", "n4"]
    assert outcomes["n1"].message.endswith("ping is broken by leaf leaf-u0-r0")


def test_ip_alone_proves_no_node() -> None:
    outcomes = judge(Hosts(build_plan(4)), "ping")
    assert {outcome.reason for outcome in outcomes.values()} == {"NotTested"}
    assert outcomes["n1"].message == "6 of 6 tests passed; no traffic of RDMA was tested"


@pytest.mark.parametrize("rungs", [("ping", "gid", "rdma_cm"), ("rdma_cm",), ("gid", "write_lat"), ("gid", "tcp_bw")])
def test_without_a_rate_of_rdma_no_node_is_proved(rungs: tuple[str, ...]) -> None:
    outcomes = judge(Hosts(build_plan(8), gbps={("n2", 0): 390}), *rungs)
    assert {outcome.state for outcome in outcomes.values()} == {"unknown"}


def test_the_rail_whose_rate_was_not_measured_is_named() -> None:
    outcomes = judge(Hosts(build_plan(8)), "gid", "rdma_cm")
    assert outcomes["n2"].message == "8 of 8 tests passed; no rate of RDMA was measured on rail 0; add rung write_bw"


def test_two_nodes_with_one_rail_are_proved_though_their_latency_has_no_median() -> None:
    assert list_states(judge(Hosts(build_plan(2, rails=1)))) == {"proved Passed": ["n1", "n2"]}


def test_a_node_whose_only_partner_is_blamed_is_unknown() -> None:
    outcomes = judge(Hosts(build_plan(3, rails=1), unreachable={"n2": "lost", "n3": "lost"}), "ping", "rdma_cm")
    assert outcomes["n1"].state == "unknown"
    assert outcomes["n1"].message.endswith("rail 0 has no partner that is sound on rung ping")
