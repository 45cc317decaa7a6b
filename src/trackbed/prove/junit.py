"""A proof for CI systems: a suite for each rung; culprits and classes that became slower fail; one case a node."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.junit import JunitCase, JunitSuite, render_junit
from trackbed.prove.baselines import describe_class, describe_regression
from trackbed.prove.proof import Proof
from trackbed.prove.report import ProofReport
from trackbed.prove.results import PathResult

_ONLY_BAD = "none of its tests passed; what failed is another case of this suite"


def render_proof(proof: Proof, report: ProofReport) -> str:
    """Render the JUnit report of a proof; a node without a test that passed, and without a fault, is skipped."""
    return render_junit("trackbed prove", (_build_suite(proof, report, rung.rung) for rung in report.rungs))


def _build_suite(proof: Proof, report: ProofReport, rung: str) -> JunitSuite:
    culprits = [culprit for culprit in report.culprits if culprit.rung == rung]
    blamed = {node for culprit in culprits for node in culprit.nodes}
    failed = [
        JunitCase(culprit.where, "failed", culprit.evidence, culprit.kind, f"look: {culprit.look}")
        for culprit in culprits
    ]
    failed += (
        JunitCase(entry.where, "failed", entry.reason, entry.verdict)
        for entry in report.unexplained
        if entry.rung == rung
    )
    failed += (
        JunitCase(describe_class(entry.now.port_class), "failed", describe_regression(entry), "slower than before")
        for entry in report.regressions
        if entry.now.port_class.rung == rung
    )
    nodes = [case for case in _iter_nodes(proof, rung) if case.name not in blamed]
    return JunitSuite(rung, failed + nodes)


def _iter_nodes(proof: Proof, rung: str) -> Iterator[JunitCase]:
    passed: set[int] = set()
    open_reasons: dict[int, str] = {}
    for result in proof.results:
        if result.rung == rung:
            for node in {port // proof.topology.rails for port in (result.test.a, result.test.b)}:
                _take_in(result, node, passed, open_reasons)
    for node, name in enumerate(proof.topology.nodes):
        if node in passed:
            yield JunitCase(name)
        else:
            yield JunitCase(name, "skipped", open_reasons.get(node, _ONLY_BAD))


def _take_in(result: PathResult, node: int, passed: set[int], open_reasons: dict[int, str]) -> None:
    if result.finding.verdict == "pass":
        passed.add(node)
    elif result.finding.verdict in {"unknown", "not-tested"}:
        open_reasons.setdefault(node, result.finding.reason)
