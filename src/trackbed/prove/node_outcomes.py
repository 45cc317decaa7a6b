"""What a proof says of each node: its traffic passed, it is blamed, or neither is known.

    blamed    a culprit is the node, or a port of it
    proved    each of its ports passed on each rung, a rate of RDMA was among them, and no test failed or is open by the
              node's own fault
    unknown   the rest: it was not tested, without a rate of RDMA, or over a leaf or an uplink that is blamed

A test that fails by the fault of the partner, or of the partner's leaf, counts for the partner alone, and so does one
that the partner missed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from trackbed.prove.culprits import Culprit, locate
from trackbed.prove.explanations import build_finder
from trackbed.prove.proof import Proof
from trackbed.prove.report import CulpritReport, ProofReport
from trackbed.prove.results import PathResult, PlannedTest
from trackbed.prove.rungs import PATH_RUNGS

Finder = Callable[[PathResult], Culprit | None]
NodeState = Literal["proved", "blamed", "unknown"]


class NodeOutcome(NamedTuple):
    """The outcome of a proof for a node."""

    node: str
    state: NodeState
    reason: str
    """In one word, as the conditions of Kubernetes have it."""
    message: str


@dataclass(slots=True)
class _Tally:
    """The results of a node's tests, without those that a partner spoilt."""

    total: int = 0
    passed: int = 0
    bad: PathResult | None = None
    """The first result that is fail or warn."""
    open: PathResult | None = None
    """The first result that is unknown or not-tested."""
    slowest: PathResult | None = None
    """The result with the lowest fraction of the ports' rate."""
    planned_ports: set[tuple[str, int]] = field(default_factory=set)
    """Rungs and rails with a test, spoilt or not."""
    passed_ports: set[tuple[str, int]] = field(default_factory=set)
    rails: set[int] = field(default_factory=set)
    """Rails of which the node has a port."""


def judge_nodes(proof: Proof, report: ProofReport) -> Iterator[NodeOutcome]:
    """Yield the outcome of each node of a proof, in the plan's order."""
    blamed: dict[str, CulpritReport] = {}
    for culprit in report.culprits:
        for name in culprit.nodes:
            blamed.setdefault(name, culprit)
    find_culprit = build_finder(proof)
    for name, tally in zip(proof.topology.nodes, _count_results(proof, find_culprit), strict=True):
        if name in blamed:
            culprit = blamed[name]
            message = f"{culprit.where} ({culprit.rung}): {culprit.evidence}; {culprit.look}"
            yield NodeOutcome(name, "blamed", "Blamed", message)
        else:
            yield _judge(name, tally, proof, find_culprit)


def _count_results(proof: Proof, find_culprit: Finder) -> list[_Tally]:
    rails, nodes = proof.topology.rails, proof.topology.nodes
    tallies = [_Tally() for _ in nodes]
    for port in proof.ends:
        tallies[port // rails].rails.add(port % rails)
    spoilers: dict[PlannedTest, Collection[str]] = {}
    for result in proof.results:
        test = result.test._replace(source_port=None)
        if result.finding.verdict != "pass":
            spoilers.setdefault(test, _find_spoilers(proof, result, find_culprit))
        names = spoilers.get(test, ())
        for port in {test.a, test.b}:
            tally = tallies[port // rails]
            tally.planned_ports.add((result.rung, port % rails))
            if result.finding.verdict == "pass" or not names or nodes[port // rails] in names:
                _count(tally, result, port % rails)
    return tallies


def _find_spoilers(proof: Proof, result: PathResult, find_culprit: Finder) -> Collection[str]:
    """Return which of both nodes is at fault for a result; empty if neither or both may be."""
    if result.finding.verdict not in {"fail", "warn"}:
        return {result.node} if result.node else ()
    culprit, topology = find_culprit(result), proof.topology
    if culprit is None:
        return ()
    ports = (result.test.a, result.test.b)
    return {
        topology.nodes[port // topology.rails]
        for port in ports
        if topology.leaf_of[port] in culprit.leaves or port // topology.rails in culprit.nodes
    }


def _count(tally: _Tally, result: PathResult, rail: int) -> None:
    verdict, fraction = result.finding.verdict, result.finding.fraction
    tally.total += 1
    if verdict in {"fail", "warn"}:
        tally.bad = tally.bad or result
    elif verdict != "pass":
        tally.open = tally.open or result
    else:
        tally.passed += 1
        tally.passed_ports.add((result.rung, rail))
    rung = PATH_RUNGS.get(result.rung)
    if rung and rung.scale == "rate" and fraction is not None:
        lowest = tally.slowest.finding.fraction if tally.slowest else None
        tally.slowest = result if lowest is None or fraction < lowest else tally.slowest


def _judge(name: str, tally: _Tally, proof: Proof, find_culprit: Finder) -> NodeOutcome:
    share = f"{tally.passed} of {tally.total} tests passed"
    if tally.bad:
        reason = _explain(tally.bad, find_culprit(tally.bad), proof)
        return NodeOutcome(name, "unknown", "NotJudged", f"{share}; {reason}")
    if tally.open:
        return NodeOutcome(name, "unknown", "NotTested", f"{share}; {tally.open.rung}: {tally.open.finding.reason}")
    if missing := sorted(tally.planned_ports - tally.passed_ports):
        rung, rail = missing[0]
        reason = f"rail {rail} has no partner that is sound on rung {rung}"
        return NodeOutcome(name, "unknown", "NotTested", f"{share}; {reason}")
    if not any(rung in PATH_RUNGS and PATH_RUNGS[rung].transport == "rdma" for rung, _ in tally.passed_ports):
        return NodeOutcome(name, "unknown", "NotTested", f"{share}; no traffic of RDMA was tested")
    if (unmeasured := _find_unmeasured_rail(tally)) is not None:
        reason = f"no rate of RDMA was measured on rail {unmeasured}; add rung write_bw"
        return NodeOutcome(name, "unknown", "NotTested", f"{share}; {reason}")
    return NodeOutcome(name, "proved", "Passed", share + _describe_slowest(tally.slowest, proof))


def _find_unmeasured_rail(tally: _Tally) -> int | None:
    """Return the first rail of a node on which no rate of RDMA passed; None if there is none."""
    measured = {
        rail
        for rung, rail in tally.passed_ports
        if rung in PATH_RUNGS and (PATH_RUNGS[rung].scale, PATH_RUNGS[rung].transport) == ("rate", "rdma")
    }
    return min(tally.rails - measured, default=None)


def _explain(bad: PathResult, culprit: Culprit | None, proof: Proof) -> str:
    if culprit:
        return f"{bad.rung} is broken by {locate(culprit, proof.topology)}"
    return f"{bad.rung}: {bad.finding.reason or 'failed'}, and no part explains it"


def _describe_slowest(slowest: PathResult | None, proof: Proof) -> str:
    if slowest is None or slowest.value is None or slowest.finding.fraction is None:
        return ""
    share = f"{slowest.value:.4g} {slowest.unit} ({slowest.finding.fraction:.0%} of the rate)"
    return f"; {slowest.rung} at least {share}, on rail {proof.ends[slowest.test.a].rail}"
