"""A proof as JUnit XML: culprits fail, nodes that were tested pass, the others are skipped with the reason."""

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any

from tests.prove.hosts import Hosts, build_plan
from trackbed.prove.junit import render_proof
from trackbed.prove.report import build_report


def render(hosts: Hosts, *rungs: str) -> dict[str, ET.Element]:
    proof = hosts.prove(rungs=rungs) if rungs else hosts.prove()
    root = ET.fromstring(render_proof(proof, build_report(proof)))  # noqa: S314 - our own text
    return {suite.get("name", ""): suite for suite in root}


def list_states(suite: ET.Element) -> dict[str, list[str]]:
    states: dict[str, list[str]] = {}
    for case in suite:
        state = next((child.tag for child in case), "passed")
        states.setdefault(state, []).append(case.get("name", ""))
    return states


def test_each_rung_is_a_suite_in_which_sound_nodes_pass() -> None:
    suites = render(Hosts(build_plan(4)))
    assert list(suites) == ["ping", "gid", "rdma_cm", "write_bw", "write_lat"]
    assert [list_states(suite) for suite in suites.values()] == [{"passed": ["n1", "n2", "n3", "n4"]}] * 5


def test_a_culprit_fails_and_its_node_is_no_other_case() -> None:
    suite = render(Hosts(build_plan(12), gbps={("n3", 1): 200}))["write_bw"]
    states = list_states(suite)
    assert states["failure"] == ["rail 1 of n3"]
    assert "n3" not in states["passed"]
    assert len(states["passed"]) == 11
    (failure,) = suite.iter("failure")
    assert "50% of the ports' 400 Gb/s" in (failure.get("message") or "")
    assert (failure.text or "").startswith("look: run `trackbed doctor`")


def test_a_node_that_was_not_tested_is_skipped_with_its_reason() -> None:
    suite = render(Hosts(build_plan(12), unreachable={"n12": "ssh does not reach it"}), "ping")["ping"]
    assert list_states(suite)["skipped"] == ["n12"]
    assert [skipped.get("message") for skipped in suite.iter("skipped")] == ["ssh does not reach it"]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("12", "0", "1")


def test_a_class_that_became_slower_fails() -> None:
    proof = Hosts(build_plan(12)).prove()
    before = [entry._replace(median=2 * entry.median) for entry in build_report(proof).baselines]
    root = ET.fromstring(render_proof(proof, build_report(proof, before)))  # noqa: S314 - our own text
    failed = {suite.get("name"): list_states(suite).get("failure") for suite in root}
    classes = [f"write_bw ({kind}) of unknown server, firmware unknown, 400 Gb/s" for kind in ("far", "near")]
    assert failed == {"ping": None, "gid": None, "rdma_cm": None, "write_bw": classes, "write_lat": None}


def test_nodes_of_a_dead_leaf_are_skipped_and_the_leaf_fails() -> None:
    hosts = Hosts(build_plan(12, rails=1), small_mtu=[(f"n{number}", 0) for number in range(1, 5)])
    states = list_states(render(hosts, "ping")["ping"])
    assert states["failure"] == ["leaf leaf-u0-r0"]
    assert states["skipped"] == ["n1", "n2", "n3", "n4"]


class HostsWithoutDevices(Hosts):
    """Hosts of which n2 has an RDMA device on rail 0 alone."""

    def answer(self, node: str, step: Mapping[str, Any]) -> object:
        """Return what a node answers; the files of a device that is not there are none."""
        is_absent = node == "n2" and "files" in step and "/rail0" not in step["files"][0]
        return {"files": {}, "missing": []} if is_absent else super().answer(node, step)


def test_a_node_of_which_most_ports_were_not_tested_is_skipped_with_their_count() -> None:
    suites = render(HostsWithoutDevices(build_plan(4, rails=8)), "ping", "gid", "write_bw")
    assert list_states(suites["ping"]) == {"passed": ["n1", "n2", "n3", "n4"]}
    for rung in ("gid", "write_bw"):
        assert list_states(suites[rung]) == {"passed": ["n1", "n3", "n4"], "skipped": ["n2"]}
        [skipped] = suites[rung].iter("skipped")
        assert (skipped.get("message") or "").startswith("1 of 8 ports passed; rail 1: it has no RDMA device rail1")


def test_a_node_whose_partner_was_not_tested_says_so() -> None:
    suite = render(Hosts(build_plan(2, rails=1), unreachable={"n2": "ssh does not reach it"}), "ping")["ping"]
    assert [skipped.get("message") for skipped in suite.iter("skipped")] == [
        "n2: ssh does not reach it",
        "ssh does not reach it",
    ]
