"""Cases run in turns: pods are attached, checked and detached, timed in sequence and ten at once."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from bench.node import RAILS, SLOTS, Calls, Node, Pod, list_working_links, pods, restore_ports
from trackbed.cluster.api.errors import KubeError
from trackbed.kernel.netlink.codec import NetlinkError

Op = Literal["ADD", "DEL"]
Order = Literal["one after another", "ten at once"]
Counts = dict[str, int]
"""Number of requests so far, by counter."""

Phases = dict[str, list[float]]
"""Microseconds by phase."""

FAILURES: Final = (RuntimeError, OSError, ValueError, NetlinkError, KubeError)
_CHUNK: Final = SLOTS  # pods of one case in turn before the next case has its turn
_WAIT_S: Final = 120


@dataclass(frozen=True, slots=True)
class Case:
    """A case: `pods` are run in sequence, and `rounds` of ten pods at once.

    `prepare` is not timed. `links` is the number of working interfaces after ADD. If `counted`, requests to other
    programs are counted. `phases` returns the time that the agent spent on the last N pods.
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
    order: Order
    op: Op
    ms: float
    whole: bool = False


@dataclass(slots=True)
class Measured:
    """All results.

    missing       reason for each case without samples
    timings       of the agents, for pods in sequence, by case
    counts        requests per pod, by case and counter
    memory_mb, tcp_sockets  of the agents
    """

    samples: list[Sample] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    timings: dict[str, Phases] = field(default_factory=dict)
    counts: dict[str, dict[str, float]] = field(default_factory=dict)
    memory_mb: dict[str, float] = field(default_factory=dict)
    tcp_sockets: int = 0


@dataclass(frozen=True, slots=True)
class _Notes:
    """Results of cases besides their samples."""

    timings: dict[str, Phases]
    counted: dict[str, Counts]
    count: Callable[[], Counts]

    def add_requests(self, case: Case, pods_run: int, before: Counts) -> None:
        known = self.counted.setdefault(case.name, {"pods": 0})
        known["pods"] += pods_run
        for counter, number in self.count().items():
            known[counter] = known.get(counter, 0) + number - before[counter]

    def add_timings(self, case: Case, pods_run: int) -> None:
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
    measured.counts.update(
        (name, _divide_by_pods(counts)) for name, counts in counted.items() if name not in measured.missing
    )


def _divide_by_pods(counts: Counts) -> dict[str, float]:
    return {counter: number / counts["pods"] for counter, number in counts.items() if counter != "pods"}


def _share(total: int, at: tuple[int, int]) -> int:
    """Return the share of this chunk when `total` is spread evenly."""
    chunk, chunks = at
    return total * (chunk + 1) // chunks - total * chunk // chunks


def _turn(made: Node, case: Case, at: tuple[int, int], notes: _Notes) -> list[Sample]:
    one_by_one, at_once = _share(case.pods, at), _share(case.rounds, at)
    if not one_by_one and not at_once:
        return []
    before = notes.count() if case.counted else {}
    samples = _samples(made, case, (one_by_one, at_once), notes)
    if case.counted:
        notes.add_requests(case, one_by_one + at_once * SLOTS, before)
    return samples


def _samples(made: Node, case: Case, amount: tuple[int, int], notes: _Notes) -> list[Sample]:
    samples: list[Sample] = []
    one_by_one, at_once = amount
    with pods(made, SLOTS if at_once else min(one_by_one, SLOTS)) as running:
        for turn in range(one_by_one):
            pod = running[turn % SLOTS]
            samples += _run_alone(case, pod, _prepare(made, case, pod))
        notes.add_timings(case, one_by_one)
        for _ in range(at_once):
            samples += _run_together(case, running, [_prepare(made, case, pod) for pod in running])
    return samples


def _prepare(made: Node, case: Case, pod: Pod) -> Calls:
    restore_ports(made, pod.slot)
    return case.prepare(pod)


def _run_alone(case: Case, pod: Pod, calls: Calls) -> Iterator[Sample]:
    yield Sample(case.name, "one after another", "ADD", _measure_ms(calls.add))
    _check(case, pod, case.links)
    yield Sample(case.name, "one after another", "DEL", _measure_ms(calls.delete))
    _check(case, pod, 0)


def _measure_ms(work: Callable[[], None]) -> float:
    start = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - start) / 1e6


def _check(case: Case, pod: Pod, wanted: int) -> None:
    """Raise RuntimeError if the pod has another number of links: a case that does no work must get no time."""
    links = list_working_links(pod)
    if len(links) != wanted:
        message = f"{case.name}: the pod should have {wanted} working links and has {len(links)}: {' '.join(links)}"
        raise RuntimeError(message)


def _run_together(case: Case, running: list[Pod], prepared: list[Calls]) -> Iterator[Sample]:
    steps: tuple[tuple[Op, list[Callable[[], None]], int], ...] = (
        ("ADD", [calls.add for calls in prepared], case.links),
        ("DEL", [calls.delete for calls in prepared], 0),
    )
    for op, works, wanted in steps:
        spans = _run_at_once(works)
        for pod in running:
            _check(case, pod, wanted)
        yield from (Sample(case.name, "ten at once", op, end - start) for start, end in spans)
        whole = max(end for _, end in spans) - min(start for start, _ in spans)
        yield Sample(case.name, "ten at once", op, whole, whole=True)


def _run_at_once(works: list[Callable[[], None]]) -> list[tuple[float, float]]:
    """Start all at once; return start and end of each in milliseconds. Raises the first exception of a thread."""
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
