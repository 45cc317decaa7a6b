"""A proof for CI systems: a suite for each rung; culprits and classes that became slower fail; one case a node.

A node passes on a rung if each of its ports that has a test there passed one. Otherwise it is skipped, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trackbed.fabric.junit import JunitCase, JunitSuite, render_junit
from trackbed.prove.baselines import describe_class, describe_regression
from trackbed.prove.proof import Proof
from trackbed.prove.report import ProofReport
from trackbed.prove.results import PathResult

_ONLY_BAD = "none of its tests passed; what failed is another case of this suite"
_NO_TESTS = "none of its ports has a test"


def render_proof(proof: Proof, report: ProofReport) -> str:
    """Render the JUnit report of a proof; a node is skipped where a port of it did not pass, without a fault."""
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
    rails = proof.topology.rails
    passed: set[int] = set()
    # By port, in the order of the results: why it has no value, where a result says it.
    planned: dict[int, str] = {}
    for result in proof.results:
        if result.rung == rung:
            _take_in(proof, result, passed, planned)
    for node, name in enumerate(proof.topology.nodes):
        ports = sorted(planned.keys() & set(range(node * rails, (node + 1) * rails)))
        left = [port for port in ports if port not in passed]
        if ports and not left:
            yield JunitCase(name)
        else:
            yield JunitCase(name, "skipped", _explain(proof, ports, left, planned))


def _take_in(proof: Proof, result: PathResult, passed: set[int], planned: dict[int, str]) -> None:
    verdict, reason = result.finding.verdict, result.finding.reason
    for port in {result.test.a, result.test.b}:
        partner = "" if result.node in {"", proof.ends[port].node} else f"{result.node}: "
        planned[port] = planned.get(port) or (f"{partner}{reason}" if verdict in {"unknown", "not-tested"} else "")
        if verdict == "pass":
            passed.add(port)


def _explain(proof: Proof, ports: Sequence[int], left: Sequence[int], reasons: Mapping[int, str]) -> str:
    """Return why not all ports of a node passed, by the first of `left` that has a reason."""
    if not ports:
        return _NO_TESTS
    port = next(filter(reasons.get, left), left[0])
    reason = reasons[port] or _ONLY_BAD
    if len(left) == len(ports):
        return reason
    return f"{len(ports) - len(left)} of {len(ports)} ports passed; rail {proof.ends[port].rail}: {reason}"
