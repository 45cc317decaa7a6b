"""Whole pods attached and detached: Trackbed, the floor and today's delegates, interleaved in one run."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from bench import delegates, floor, kernel, trackbed_case
from bench.node import RAILS, SLOTS, Calls, Node, Pod, node, pods, ready, working_links
from bench.peers import Peers
from trackbed.netlink.codec import NetlinkError

Op = Literal["ADD", "DEL"]
Way = Literal["one after another", "ten at once"]

CHUNK: Final = SLOTS
"""Pods of one case in turn before the next case has its turn."""

_FAILURES: Final = (RuntimeError, OSError, ValueError, NetlinkError)
_WAIT_S: Final = 120
_FLOORS: Final = {"macvlan": floor.macvlan, "move": floor.move}
_DELEGATES: Final = {"macvlan": delegates.macvlan, "move": delegates.move}


@dataclass(frozen=True, slots=True)
class Case:
    """`prepare` packs or configures for one pod, untimed. `pods` and `rounds` (of ten at once) are how many to run."""

    name: str
    prepare: Callable[[Pod], Calls]
    pods: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Sample:
    """Milliseconds of one pod, or of all ten together (`whole`)."""

    case: str
    way: Way
    op: Op
    ms: float
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Amount:
    """How much to run: pods one after another of floor and Trackbed, of the delegates, and rounds of ten at once."""

    pods: int
    peer_pods: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Measured:
    """All samples; why a case has none; and the agent's own timings, microseconds by mode and phase."""

    samples: list[Sample]
    missing: dict[str, str]
    timings: dict[str, dict[str, list[float]]]


def measure(state: Path, found: Peers, amount: Amount) -> Measured:
    """Run every case that can be run. Moves this process into private namespaces for good."""
    kernel.own_namespaces()
    state.mkdir(parents=True, exist_ok=True)
    made = node(state)
    measured = Measured([], {}, {})
    with contextlib.ExitStack() as stack:
        agents = _agents(stack, made, measured.missing)
        cases = list(_cases(made, found, agents, amount, measured.missing))
        _interleave(made, cases, measured)
        measured.timings.update({mode: trackbed_case.timings(agent) for mode, agent in agents.items()})
    return measured


def _agents(stack: contextlib.ExitStack, made: Node, missing: dict[str, str]) -> dict[str, trackbed_case.Agent]:
    agents: dict[str, trackbed_case.Agent] = {}
    reason = trackbed_case.missing()
    for mode in trackbed_case.MODES:
        if reason:
            missing[f"trackbed {mode}"] = reason
            continue
        agents[mode] = trackbed_case.start_agent(made, mode)
        stack.callback(trackbed_case.stop, agents[mode])
    return agents


def _cases(
    made: Node, found: Peers, agents: dict[str, trackbed_case.Agent], amount: Amount, missing: dict[str, str]
) -> Iterator[Case]:
    plain = (amount.pods, amount.rounds)
    for mode in trackbed_case.MODES:
        yield Case(f"floor {mode}", _FLOORS[mode](made), *plain)
        if mode in agents:
            yield Case(f"trackbed {mode}", trackbed_case.case(agents[mode]), *plain)
        if found.folder:
            peer = _DELEGATES[mode](found.folder, made)
            yield Case(f"delegates {mode}", peer, amount.peer_pods, amount.rounds)
        else:
            missing[f"delegates {mode}"] = found.reason


def _interleave(made: Node, cases: list[Case], measured: Measured) -> None:
    chunks = max(-(-case.pods // CHUNK) for case in cases)
    for chunk in range(chunks):
        for case in [case for case in cases if case.name not in measured.missing]:
            try:
                measured.samples.extend(_turn(made, case, chunk, chunks))
            except _FAILURES as error:
                measured.missing[case.name] = f"failed: {error}"
        print(f"chunk {chunk + 1} of {chunks}", file=sys.stderr, flush=True)
    measured.samples[:] = [sample for sample in measured.samples if sample.case not in measured.missing]


def _share(total: int, chunk: int, chunks: int) -> int:
    """How many of `total` fall to this chunk when they are spread evenly."""
    return total * (chunk + 1) // chunks - total * chunk // chunks


def _turn(made: Node, case: Case, chunk: int, chunks: int) -> list[Sample]:
    samples: list[Sample] = []
    count, at_once = (_share(total, chunk, chunks) for total in (case.pods, case.rounds))
    if not count and not at_once:
        return samples
    with pods(made, SLOTS if at_once else min(count, SLOTS)) as running:
        for turn in range(count):
            pod = running[turn % SLOTS]
            samples += _one(case, pod, _ready(made, case, pod))
        for _ in range(at_once):
            samples += _together(case, running, [_ready(made, case, pod) for pod in running])
    return samples


def _ready(made: Node, case: Case, pod: Pod) -> Calls:
    ready(made, pod.slot)
    return case.prepare(pod)


def _one(case: Case, pod: Pod, calls: Calls) -> Iterator[Sample]:
    yield Sample(case.name, "one after another", "ADD", _timed(calls.add))
    _check(case, pod, RAILS)
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
        ("ADD", [calls.add for calls in prepared], RAILS),
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
        except _FAILURES as error:
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
