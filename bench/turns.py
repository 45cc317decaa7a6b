"""Runs cases in turns: whole pods attached and detached, timed one after another and ten at once, and looked into."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from bench.node import RAILS, SLOTS, Calls, Node, Pod, pods, ready, working_links
from trackbed.cluster.api.errors import KubeError
from trackbed.kernel.netlink.codec import NetlinkError

Op = Literal["ADD", "DEL"]
Way = Literal["one after another", "ten at once"]
Counts = dict[str, int]
"""What has been counted so far, by what."""

Phases = dict[str, list[float]]
"""Microseconds by phase."""

FAILURES: Final = (RuntimeError, OSError, ValueError, NetlinkError, KubeError)
_CHUNK: Final = SLOTS  # pods of one case in turn before the next case has its turn
_WAIT_S: Final = 120


@dataclass(frozen=True, slots=True)
class Case:
    """`prepare` packs or configures for one pod, untimed. `pods` and `rounds` (of ten at once) are how many to run.

    `links` is how many working interfaces the pod has after ADD. `counted`: what it asks of others is counted. `phases`
    says for the last pods, that many, what the agent spent on them.
    """

    name: str
    prepare: Callable[[Pod], Calls]
    pods: int
    rounds: int
    links: int = RAILS
    counted: bool = False
    phases: Callable[[int], Phases] | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """Milliseconds of one pod, or of all ten together (`whole`)."""

    case: str
    way: Way
    op: Op
    ms: float
    whole: bool = False


@dataclass(slots=True)
class Measured:
    """All samples; why a case has none; the agents' own timings; what cases asked of others; agents' memory.

    `timings` are of pods one after another, by case; `counts` requests per pod by case and what is counted; `memory_mb`
    and `tcp_sockets` are of agents.
    """

    samples: list[Sample] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    timings: dict[str, Phases] = field(default_factory=dict)
    counts: dict[str, dict[str, float]] = field(default_factory=dict)
    memory_mb: dict[str, float] = field(default_factory=dict)
    tcp_sockets: int = 0


@dataclass(frozen=True, slots=True)
class _Notes:
    """What is noted of cases beside their samples."""

    timings: dict[str, Phases]
    counted: dict[str, Counts]
    count: Callable[[], Counts]

    def asked(self, case: Case, pods_run: int, before: Counts) -> None:
        known = self.counted.setdefault(case.name, {"pods": 0})
        known["pods"] += pods_run
        for what, number in self.count().items():
            known[what] = known.get(what, 0) + number - before[what]

    def took(self, case: Case, pods_run: int) -> None:
        for phase, values in (case.phases(pods_run) if case.phases and pods_run else {}).items():
            self.timings.setdefault(case.name, {}).setdefault(phase, []).extend(values)


def interleave(made: Node, cases: list[Case], count: Callable[[], Counts], measured: Measured) -> None:
    """Run all cases, ten pods each in turn, spread evenly over the run."""
    chunks = max(-(-case.pods // _CHUNK) for case in cases)
    counted: dict[str, Counts] = {}
    for chunk in range(chunks):
        for case in [case for case in cases if case.name not in measured.missing]:
            try:
                measured.samples.extend(_turn(made, case, (chunk, chunks), _Notes(measured.timings, counted, count)))
            except FAILURES as error:
                measured.missing[case.name] = f"failed: {error}"
        print(f"chunk {chunk + 1} of {chunks}", file=sys.stderr, flush=True)
    measured.samples[:] = [sample for sample in measured.samples if sample.case not in measured.missing]
    measured.counts.update((name, _each(found)) for name, found in counted.items() if name not in measured.missing)


def _each(found: Counts) -> dict[str, float]:
    return {what: number / found["pods"] for what, number in found.items() if what != "pods"}


def _share(total: int, at: tuple[int, int]) -> int:
    """How many of `total` fall to this chunk when they are spread evenly."""
    chunk, chunks = at
    return total * (chunk + 1) // chunks - total * chunk // chunks


def _turn(made: Node, case: Case, at: tuple[int, int], notes: _Notes) -> list[Sample]:
    one_by_one, at_once = _share(case.pods, at), _share(case.rounds, at)
    if not one_by_one and not at_once:
        return []
    before = notes.count() if case.counted else {}
    samples = _samples(made, case, (one_by_one, at_once), notes)
    if case.counted:
        notes.asked(case, one_by_one + at_once * SLOTS, before)
    return samples


def _samples(made: Node, case: Case, amount: tuple[int, int], notes: _Notes) -> list[Sample]:
    samples: list[Sample] = []
    one_by_one, at_once = amount
    with pods(made, SLOTS if at_once else min(one_by_one, SLOTS)) as running:
        for turn in range(one_by_one):
            pod = running[turn % SLOTS]
            samples += _one(case, pod, _ready(made, case, pod))
        notes.took(case, one_by_one)
        for _ in range(at_once):
            samples += _together(case, running, [_ready(made, case, pod) for pod in running])
    return samples


def _ready(made: Node, case: Case, pod: Pod) -> Calls:
    ready(made, pod.slot)
    return case.prepare(pod)


def _one(case: Case, pod: Pod, calls: Calls) -> Iterator[Sample]:
    yield Sample(case.name, "one after another", "ADD", _timed(calls.add))
    _check(case, pod, case.links)
    yield Sample(case.name, "one after another", "DEL", _timed(calls.delete))
    _check(case, pod, 0)


def _timed(work: Callable[[], None]) -> float:
    start = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - start) / 1e6


def _check(case: Case, pod: Pod, wanted: int) -> None:
    """A case that doesn't do the work must not get a time."""
    links = working_links(pod)
    if len(links) != wanted:
        message = f"{case.name}: the pod should have {wanted} working links and has {len(links)}: {' '.join(links)}"
        raise RuntimeError(message)


def _together(case: Case, running: list[Pod], prepared: list[Calls]) -> Iterator[Sample]:
    steps: tuple[tuple[Op, list[Callable[[], None]], int], ...] = (
        ("ADD", [calls.add for calls in prepared], case.links),
        ("DEL", [calls.delete for calls in prepared], 0),
    )
    for op, works, wanted in steps:
        spans = _at_once(works)
        for pod in running:
            _check(case, pod, wanted)
        yield from (Sample(case.name, "ten at once", op, end - start) for start, end in spans)
        whole = max(end for _, end in spans) - min(start for start, _ in spans)
        yield Sample(case.name, "ten at once", op, whole, whole=True)


def _at_once(works: list[Callable[[], None]]) -> list[tuple[float, float]]:
    """Start all at the same moment; start and end of each, in milliseconds. Raises what one of them raised."""
    spans: list[tuple[float, float]] = []
    failed: list[Exception] = []
    gate = threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        gate.wait(_WAIT_S)
        start = time.perf_counter_ns() / 1e6
        try:
            work()
        except FAILURES as error:
            failed.append(error)
        spans.append((start, time.perf_counter_ns() / 1e6))

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return spans
