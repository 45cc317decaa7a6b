"""A proof as people and programs read it: culprits with their evidence, counts by rung, and what was not tested.

`build_report` returns values of which each is shown as it is: text and JSON come from the same ones.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple

from trackbed.fabric.host_ranges import fold_hosts
from trackbed.prove.baselines import (
    ClassBaseline,
    Regression,
    compute_baselines,
    describe_class,
    describe_regression,
    find_counterpart,
    find_regressions,
    list_lapsed,
)
from trackbed.prove.culprits import ADVICE, locate
from trackbed.prove.explanations import ResultIndex, build_finder, index_results, list_concerned
from trackbed.prove.findings import ProofVerdict, Transport, count_verdicts
from trackbed.prove.proof import Proof
from trackbed.prove.results import PathResult
from trackbed.prove.rungs import GID, RUNGS
from trackbed.prove.state import RungCulprit

_SHOWN_COUNTERS = 4
_UNUSUAL = 2.0
"""A counter is evidence where it rose by more than this times what is usual at ports without a bad test."""
_NOTHING_COMPARED = "; no class could be compared with the earlier proof: it needs 4 tests of like ports in both"
_BAD: tuple[ProofVerdict, ...] = ("fail", "warn")


class CulpritReport(NamedTuple):
    """A culprit: where it is, what shows it, what to look at."""

    rung: str
    transport: Transport
    kind: str
    where: str
    evidence: str
    look: str
    nodes: tuple[str, ...]
    rail: int | None
    leaves: tuple[str, ...]
    loss: float


class RungReport(NamedTuple):
    """Tests of a rung by verdict; their sum is what was planned."""

    rung: str
    transport: Transport
    planned: int
    verdicts: dict[ProofVerdict, int]
    unit: str
    median: float | None
    """Median of the measured values; None if none was measured."""


class Untested(NamedTuple):
    """Tests that were not run, or that cannot be judged, for one reason."""

    rungs: tuple[str, ...]
    verdict: Literal["unknown", "not-tested"]
    tests: int
    nodes: tuple[str, ...]
    """Nodes that the reason is about; empty if it is about no node."""
    reason: str


class Unexplained(NamedTuple):
    """A test that failed, or was low, and that no culprit explains."""

    rung: str
    transport: Transport
    verdict: ProofVerdict
    where: str
    reason: str


class CounterReport(NamedTuple):
    """A counter that rose during the run; `delta` is None if it started anew in between."""

    node: str
    rail: int
    name: str
    kind: str
    delta: int | None


class ProofReport(NamedTuple):
    """What a proof says, the most important first."""

    status: int
    summary: str
    culprits: tuple[CulpritReport, ...]
    unexplained: tuple[Unexplained, ...]
    rungs: tuple[RungReport, ...]
    untested: tuple[Untested, ...]
    undecided: tuple[str, ...]
    """Ports that are suspect, and that their repeats could not decide."""
    counters: tuple[CounterReport, ...]
    baselines: tuple[ClassBaseline, ...]
    """What each class of ports reached, for a later proof."""
    regressions: tuple[Regression, ...]
    """Classes that are slower than in an earlier proof."""
    uncompared: tuple[str, ...]
    """Classes that the earlier proof does not have."""
    lapsed: tuple[str, ...]
    """Classes of the earlier proof that this one does not have."""
    repeats: int
    """Rounds that suspects added."""
    share: float
    """Part of the ports' rate that tests were allowed to load."""


def build_report(proof: Proof, before: Sequence[ClassBaseline] | None = None) -> ProofReport:
    """Return the report of a proof. Its status is 0 if all is proved, 1 if something is bad, 3 if something is open.

    `before`: baselines of an earlier proof; a class that is slower than there is bad. None: there is none.
    """
    index, usual = index_results(proof.results), _compute_usual_rises(proof)
    culprits = tuple(_build_culprit(proof, culprit, index, usual) for culprit in proof.culprits)
    rungs = tuple(_count_rung(proof, rung) for rung in RUNGS if any(r.rung == rung for r in proof.results))
    baselines = compute_baselines(proof)
    regressions = tuple(find_regressions(baselines, before or ()))
    uncompared = tuple(_list_uncompared(baselines, before))
    is_compared = before is None or len(uncompared) < len(baselines)
    status, summary = _judge_all(culprits, rungs, regressions, is_compared=is_compared)
    summary += "" if proof.share == 1 else f"; at {proof.share:g} of the ports' rate"
    return ProofReport(
        status,
        summary,
        culprits,
        tuple(_list_unexplained(proof)),
        rungs,
        tuple(_group_untested(proof.results)),
        tuple(f"{_name_port(proof, port)} ({rung})" for rung, port in proof.undecided),
        tuple(
            CounterReport(proof.ends[port].node, proof.ends[port].rail, change.name, change.kind, change.delta)
            for port, changes in proof.counters.items()
            for change in changes
        ),
        baselines,
        regressions,
        uncompared,
        tuple(list_lapsed(baselines, before or ())),
        proof.repeats,
        proof.share,
    )


def _list_uncompared(baselines: Iterable[ClassBaseline], before: Sequence[ClassBaseline] | None) -> Iterator[str]:
    if before is not None:
        yield from (describe_class(entry.port_class) for entry in baselines if not find_counterpart(entry, before))


def list_details(report: ProofReport) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return titles and lines of what is neither a culprit nor a count; first what failed without a culprit."""
    return (
        (
            "Failed or low, and no part explains it",
            tuple(f"{entry.verdict}  {entry.rung}  {entry.where}: {entry.reason}" for entry in report.unexplained),
        ),
        ("Slower than in the earlier proof", tuple(map(describe_regression, report.regressions))),
        ("Not in the earlier proof, so not compared", report.uncompared),
        ("In the earlier proof alone, so not compared", report.lapsed),
        ("Not tested, or not to be judged", tuple(map(_describe_untested, report.untested))),
        ("Suspect, and not decided by its repeats", report.undecided),
        ("Counters that rose", tuple(map(_describe_counter, report.counters))),
    )


def _describe_untested(group: Untested) -> str:
    where = f"{fold_hosts(group.nodes)}: " if group.nodes else ""
    return f"{group.tests} {group.verdict} ({', '.join(group.rungs)}): {where}{group.reason}"


def _describe_counter(counter: CounterReport) -> str:
    change = "started anew" if counter.delta is None else f"+{counter.delta}"
    return f"{counter.node} rail {counter.rail}: {counter.name} {change} ({counter.kind})"


def _judge_all(
    culprits: Sequence[CulpritReport],
    rungs: Sequence[RungReport],
    regressions: Sequence[Regression],
    *,
    is_compared: bool,
) -> tuple[int, str]:
    counts = Counter[str]()
    for rung in rungs:
        counts.update(rung.verdicts)
    total = sum(counts.values())
    tally = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("pass", "warn", "fail", "unknown", "not-tested"))
    is_by_ip = all(rung.transport == "ip" or rung.rung == GID for rung in rungs)
    verdicts: tuple[tuple[bool, int, str, str], ...] = (
        (bool(culprits) or counts["fail"] > 0, 1, "broken", ""),
        (counts["warn"] > 0, 1, "low", ""),
        (bool(regressions), 1, "slower than before", ""),
        (counts["unknown"] + counts["not-tested"] > 0 or not total, 3, "unknown", ""),
        (is_by_ip, 3, "unknown", "; by IP alone, no traffic of RDMA was tested"),
        (not is_compared, 3, "unknown", _NOTHING_COMPARED),
        (True, 0, "proved", ""),
    )
    return next(
        (status, f"{word}: {total} tests planned: {tally}{hint}") for applies, status, word, hint in verdicts if applies
    )


def _build_culprit(proof: Proof, blamed: RungCulprit, index: ResultIndex, usual: Mapping[str, float]) -> CulpritReport:
    culprit, topology = blamed.culprit, proof.topology
    concerned = list_concerned(index, blamed.rung, culprit, topology)
    bad = [result for result in concerned if result.finding.verdict in _BAD]
    reasons = Counter(result.finding.reason for result in bad if result.finding.reason)
    example = blamed.reason or next((reason for reason, _ in reasons.most_common(1)), "")
    tested = [result for result in concerned if result.finding.verdict not in {"unknown", "not-tested"}]
    evidence = f"{len(bad)} of {len(tested)} tests failed" + (f", such as {example}" if example else "")
    counters = ", ".join(_list_counters(proof, bad, usual))
    nodes = tuple(topology.nodes[node] for node in culprit.nodes)
    return CulpritReport(
        blamed.rung,
        bad[0].finding.transport if bad else "rdma",
        culprit.kind,
        locate(culprit, topology),
        blamed.reason or evidence + (f"; counters that rose: {counters}" if counters else ""),
        blamed.look or ADVICE[culprit.kind],
        nodes,
        culprit.rail,
        tuple(topology.leaves[leaf] for leaf in culprit.leaves),
        round(culprit.loss, 3),
    )


def _list_counters(proof: Proof, results: Iterable[PathResult], usual: Mapping[str, float]) -> Iterator[str]:
    """Yield the largest rises at ports of these results, without those that other ports have as well.

    A kernel counts each frame of a protocol that it does not know, such as LLDP, as rx_dropped (struct
    rtnl_link_stats64).
    """
    ports = dict.fromkeys(port for result in results for port in (result.test.a, result.test.b))
    rises = [
        (change.delta, f"{change.name} +{change.delta} ({_name_port(proof, port)})")
        for port in ports
        for change in proof.counters.get(port, ())
        if change.delta and change.delta > _UNUSUAL * usual.get(change.name, 0.0)
    ]
    yield from (text for _, text in sorted(rises, key=lambda rise: -rise[0])[:_SHOWN_COUNTERS])


def _compute_usual_rises(proof: Proof) -> dict[str, float]:
    """Return the median rise of each counter at the ports without a bad test, or at all where each port has one."""
    bad = {p for r in proof.results if r.finding.verdict in _BAD for p in (r.test.a, r.test.b)}
    ports = [port for port in proof.facts if port not in bad] or list(proof.facts)
    rises: defaultdict[str, list[int]] = defaultdict(list)
    for port in ports:
        for change in proof.counters.get(port, ()):
            rises[change.name].append(change.delta or 0)
    return {name: median([*risen, *[0] * (len(ports) - len(risen))]) for name, risen in rises.items()}


def _list_unexplained(proof: Proof) -> Iterator[Unexplained]:
    find_culprit = build_finder(proof)
    for result in proof.results:
        finding, test = result.finding, result.test
        if finding.verdict in _BAD and not find_culprit(result):
            where = " to ".join(_name_port(proof, port) for port in dict.fromkeys((test.a, test.b)))
            yield Unexplained(result.rung, finding.transport, finding.verdict, where, finding.reason)


def _name_port(proof: Proof, port: int) -> str:
    end = proof.ends[port]
    return f"{end.node} rail {end.rail}"


def _count_rung(proof: Proof, rung: str) -> RungReport:
    results = [result for result in proof.results if result.rung == rung]
    values = sorted(result.value for result in results if result.value is not None)
    return RungReport(
        rung,
        results[0].finding.transport,
        len(results),
        count_verdicts(result.finding for result in results),
        next((result.unit for result in results if result.unit), ""),
        values[len(values) // 2] if values else None,
    )


def _group_untested(results: Iterable[PathResult]) -> Iterator[Untested]:
    groups: dict[tuple[str, str], list[PathResult]] = defaultdict(list)
    for result in results:
        if result.finding.verdict in {"unknown", "not-tested"}:
            groups[result.finding.verdict, result.finding.reason].append(result)
    for (verdict, reason), members in groups.items():
        yield Untested(
            tuple(dict.fromkeys(member.rung for member in members)),
            "unknown" if verdict == "unknown" else "not-tested",
            len(members),
            tuple(sorted({member.node for member in members if member.node})),
            reason,
        )
