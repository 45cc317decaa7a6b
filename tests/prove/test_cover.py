"""Single flows of a cover: a collision that a repeat clears is no failure, and stops no rung."""

from tests.prove.hosts import build_plan
from tests.prove.single_flows import SingleFlowHosts
from trackbed.prove.node_outcomes import judge_nodes
from trackbed.prove.report import build_report


def test_flows_that_met_on_a_link_have_the_value_of_their_repeat_and_are_tested_on_the_rungs_above() -> None:
    proof = SingleFlowHosts(build_plan(8, rails=1), collisions=3).prove("cover")
    report = build_report(proof)
    assert (report.status, report.culprits, report.unexplained, report.untested) == (0, (), (), ())
    assert report.repeats > 0
    assert {outcome.state for outcome in judge_nodes(proof, report)} == {"proved"}
    reasons = [result.finding.reason for result in proof.results if "repeated" in result.finding.reason]
    assert reasons == ["98% of the ports' 400 Gb/s when it was repeated; before: 49% of the ports' 400 Gb/s"] * 3
    assert {result.value for result in proof.results if result.rung == "write_bw"} == {390.0}


def test_flows_that_stay_low_are_no_pass() -> None:
    report = build_report(SingleFlowHosts(build_plan(8, rails=1), collisions=100_000).prove("cover"))
    assert report.status == 1
    assert next(rung.verdicts["pass"] for rung in report.rungs if rung.rung == "write_bw") == 0
