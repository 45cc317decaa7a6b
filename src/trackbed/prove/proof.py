"""A proof: rung after rung, each with its rounds, its results and its culprits.

    run = prove(plan, "screen", LADDER)
    sheet = next(run)                     # a Sheet for all nodes
    sheet = run.send(answers)             # and so on, until StopIteration has the Proof

Files of the ports are read first and last. A test that does not pass on a rung is not tested on those above it. Every
planned test has one result on each rung, and every port that no round of a rung tests has a result that says so. So
planned = tested + not-tested, whatever is lost. Repeats that blame asks for are no planned tests, but a planned test
that was low by chance has the value of its repeat.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from trackbed.fabric.plan.plan import Plan
from trackbed.prove.blame import Blame, investigate
from trackbed.prove.facts import CounterChange, PortFacts, compare_counters
from trackbed.prove.findings import PathFinding
from trackbed.prove.links import UNTRACED, Trace
from trackbed.prove.paths import build_path, list_ends
from trackbed.prove.ports import find_gpus, find_pod_ends, judge_gids, judge_negotiated_rates, read_facts
from trackbed.prove.repeats import replace_cleared
from trackbed.prove.results import PathResult, PlannedTest, judge_readings
from trackbed.prove.rounds import Round, explain_unpaired, plan_rounds
from trackbed.prove.rungs import GID, PATH_RUNGS, needs_gpus
from trackbed.prove.rungs.rung import PathEnd, ProbedPath, Rung, RungReading, explain_missing
from trackbed.prove.sheets import Answers, Sheet, build_sheet
from trackbed.prove.state import ProofState, RungCulprit, Stop
from trackbed.prove.topology import FabricTopology, build_topology, read_uplinks

MOST_ROUNDS = 16
"""Rounds of a sheet at most: sheet and answers of a node have to fit into a ConfigMap (1 MiB), also on 8 rails."""


class Proof(NamedTuple):
    """What a proof found."""

    topology: FabricTopology
    ends: Mapping[int, PathEnd]
    results: tuple[PathResult, ...]
    culprits: tuple[RungCulprit, ...]
    undecided: tuple[tuple[str, int], ...]
    """Rung and port of suspects that their repeats could not decide."""
    facts: Mapping[int, PortFacts]
    """What was read of each port before the run."""
    counters: Mapping[int, list[CounterChange]]
    """Counters of each port that changed during the run."""
    repeats: int
    """Rounds that suspects added."""
    share: float
    """Part of the ports' rate that tests were allowed to load."""


def prove(
    plan: Plan, mode: str, rungs: Sequence[str], *, in_pods: bool = False, share: float = 1.0
) -> Generator[Sheet, Answers, Proof]:
    """Prove the nodes of a plan by the rounds of a mode, on these rungs of the ladder, lowest first.

    `in_pods`: the workers are in pods, whose addresses, interfaces and devices are read before anything else.
    `share`: part of the ports' rate that a test may load, over 0 up to 1, for a fabric in use.

    Raises ValueError if the plan has no addresses, KeyError for an unknown mode or rung.
    """
    if not plan.common.has_addresses:
        raise ValueError("the Fabric plans no addresses (scheme none), so that no test has a source and a target")
    topology = build_topology(plan)
    run = ProofState(plan, topology, list_ends(plan, topology), mode=mode, in_pods=in_pods, share=share)
    if in_pods:
        yield from find_pod_ends(run)
    run.facts = yield from read_facts(run)
    rates = [facts.rate_gbps for facts in run.facts.values() if facts.rate_gbps]
    run.topology = build_topology(plan, read_uplinks(plan, median(rates) if rates else None))
    run.rounds = list(plan_rounds(run.topology, mode))
    if needs_gpus(rungs):
        yield from find_gpus(run)
    rated = next((name for name in rungs if name in PATH_RUNGS and PATH_RUNGS[name].scale == "rate"), "")
    for name in rungs:
        if name == GID:
            judge_gids(run)
        else:
            if name == rated:
                judge_negotiated_rates(run, PATH_RUNGS[name])
            yield from _climb(run, PATH_RUNGS[name])
    after = yield from read_facts(run)
    changes = {
        port: compare_counters(facts.counters, after[port].counters)
        for port, facts in run.facts.items()
        if port in after
    }
    return Proof(
        run.topology,
        run.ends,
        tuple(run.results),
        tuple(run.culprits),
        tuple(run.undecided),
        run.facts,
        {port: counters for port, counters in changes.items() if counters},
        run.repeats,
        run.share,
    )


def _climb(run: ProofState, rung: Rung) -> Generator[Sheet, Answers, None]:
    """Test all rounds on a rung, and find its culprits with the repeats that they need."""
    rounds = [_fit_round(tests, rung) for tests in run.rounds]
    by_round = [list(_list_tests(run, tests, number)) for number, tests in enumerate(rounds, start=1)]
    planned = [test for tests in by_round for test in tests if rung.tests_isolation or not test.is_isolated]
    readings = yield from _measure(run, rung, rung.name, planned)
    results = judge_readings(rung, planned, readings, run.facts, run.share)
    if rung.scale != "latency":
        values = {result.test: _get_value(result) for result in results}
        columns = [[values.get(test, math.nan) for test in tests] for tests in by_round]
        repeated: list[PathResult] = []
        blame = yield from _blame(run, rung, list(zip(rounds, columns, strict=True)), repeated)
        run.culprits += (
            RungCulprit(rung.name, culprit, look=rung.look if culprit.kind == "port" else "")
            for culprit in blame.culprits
        )
        run.undecided += ((rung.name, port) for port in blame.undecided)
        results = replace_cleared(results, repeated, blame, run.topology)
    run.results += [*results, *_list_unpaired(run, rung, planned)]
    for result in results:
        if result.finding.verdict not in {"pass", "warn"}:
            is_open = result.finding.verdict == "not-tested"
            stop = Stop(result.finding.reason, result.node) if is_open else Stop(f"{rung.name} did not pass")
            run.stops.setdefault(result.test._replace(source_port=None), stop)


def _list_unpaired(run: ProofState, rung: Rung, planned: Iterable[PlannedTest]) -> Iterator[PathResult]:
    """Yield a result for each port that no test of a rung has, with the reason."""
    paired = {port for test in planned for port in (test.a, test.b)}
    for port, end in run.ends.items():
        if port not in paired:
            stop = _find_port_stop(run, rung, port) or Stop(explain_unpaired(run.topology, run.mode, port), end.node)
            finding = PathFinding("not-tested", rung.transport, None, stop.reason)
            yield PathResult(rung.name, PlannedTest(0, "port", port, port), finding, node=stop.node)


def _fit_round(tests: Round, rung: Rung) -> Round:
    """Return a round without its source ports, unless the rung sends single flows."""
    return tests if rung.scale == "rate" else tests._replace(source_ports=array("i"))


def _list_tests(run: ProofState, tests: Round, number: int) -> Iterator[PlannedTest]:
    source_ports = tests.source_ports or [None] * len(tests.a)
    rails, is_split = run.topology.rails, run.plan.common.cross_rail == "isolated"
    leaf_of = run.topology.leaf_of
    for a, b, source_port in zip(tests.a, tests.b, source_ports, strict=True):
        is_isolated = is_split and a % rails != b % rails
        yield PlannedTest(number, tests.kind, a, b, source_port, is_isolated, leaf_of[a] != leaf_of[b])


def _get_value(result: PathResult) -> float:
    """Return what blame counts: the share of the rate that was reached; NaN without a value."""
    fraction = None if result.finding.verdict in {"unknown", "not-tested"} else result.finding.fraction
    return math.nan if fraction is None else fraction


def _measure(
    run: ProofState, rung: Rung, title: str, tests: Sequence[PlannedTest]
) -> Generator[Sheet, Answers, list[RungReading]]:
    """Return the reading of each test; a test that a lower rung or a lost node stops is not run."""
    stops = [_find_stop(run, rung, test) for test in tests]
    paths = [None if stop.reason else _build_path(run, test) for test, stop in zip(tests, stops, strict=True)]
    by_round: dict[int, dict[int, ProbedPath]] = {}
    for number, (test, path) in enumerate(zip(tests, paths, strict=True)):
        if path is not None:
            by_round.setdefault(test.round, {})[number] = path
    outputs: dict[int, object] = {}
    numbers = sorted(by_round)
    for first in range(0, len(numbers), MOST_ROUNDS):
        chosen = numbers[first : first + MOST_ROUNDS]
        part = f"{title}, from round {chosen[0]}" if first else title
        answers = yield build_sheet(rung, part, (by_round[number] for number in chosen))
        outputs |= answers.outputs
        run.failures = answers.failures
    return [
        RungReading("not-tested", None, *stops[number]) if path is None else _read(run, rung, path, outputs, 2 * number)
        for number, path in enumerate(paths)
    ]


def _build_path(run: ProofState, test: PlannedTest) -> ProbedPath:
    rates = [run.facts[port].rate_gbps for port in (test.a, test.b) if port in run.facts]
    rate_gbps = min((rate * run.share for rate in rates if rate), default=None)
    path = build_path(run.plan.common, run.ends[test.a], run.ends[test.b], test.source_port, rate_gbps)
    return path._replace(is_limited=run.share < 1)


def _find_stop(run: ProofState, rung: Rung, test: PlannedTest) -> Stop:
    """Return why a test cannot be run; the reason is empty if it can."""
    stops = (_find_port_stop(run, rung, port) for port in (test.a, test.b))
    return next(filter(None, stops), None) or run.stops.get(test._replace(source_port=None), Stop(""))


def _find_port_stop(run: ProofState, rung: Rung, port: int) -> Stop | None:
    node, facts = run.ends[port].node, run.facts.get(port)
    if node in run.failures:
        return Stop(run.explain_loss(node), node)
    if port in run.absent:
        return Stop(run.absent[port].reason, node)
    if rung.transport == "rdma" and port in run.port_stops:
        return run.port_stops[port]
    if facts and rung.program in facts.missing_programs:
        return Stop(explain_missing(rung.program), node)
    if rung.scale == "rate" and run.share < 1 and not (facts and facts.rate_gbps):
        return Stop("its rate is not known, so no share of it; state spec.rate", node)
    return run.gpu_stops.get(port) if rung.needs_gpu else None


def _read(run: ProofState, rung: Rung, path: ProbedPath, outputs: Mapping[int, object], first: int) -> RungReading:
    for end, step in ((path.a, first), (path.b, first + 1)):
        if step not in outputs:
            return RungReading("not-tested", reason=run.explain_loss(end.node), node=end.node)
    return rung.read(path, outputs[first], outputs[first + 1])


def _blame(
    run: ProofState, rung: Rung, results: Sequence[tuple[Round, Sequence[float]]], repeated: list[PathResult]
) -> Generator[Sheet, Answers, Blame]:
    """Run blame's requests, and append their results to `repeated`.

    The path of a flow is not traced, so that spines stay unknown.
    """
    investigation = investigate(run.topology, results)
    values: Sequence[float] | None = None
    while True:
        try:
            request = next(investigation) if values is None else investigation.send(values)
        except StopIteration as end:
            blame: Blame = end.value
            return blame
        if isinstance(request, Trace):
            values = [UNTRACED] * len(request.a)
            continue
        tests = list(_list_tests(run, request, 1))
        readings = yield from _measure(run, rung, f"{rung.name}, repeat {run.repeats + 1}", tests)
        run.repeats += 1
        judged = judge_readings(rung, tests, readings, run.facts, run.share)
        repeated += judged
        values = [_get_value(result) for result in judged]
