"""What ports of one kind reached: kept with a proof, and compared with a later one.

A class is what should reach the same: model of the server, firmware of the NIC, rate of the ports, mode, and whether a
test crosses leaves. The median of a class is compared with that of the same firmware, or else of any other firmware on
the same server, since an update is what often makes a whole class slower. A single port is judged by its own class.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from statistics import median
from typing import NamedTuple

from trackbed.prove.findings import MEDIAN_BELOW
from trackbed.prove.proof import Proof
from trackbed.prove.results import LATENCY_ABOVE, LEAST_OF_CLASS, PathResult
from trackbed.prove.rungs import PATH_RUNGS


class PortClass(NamedTuple):
    """What should reach the same."""

    server: str
    firmware: str
    rate_gbps: float | None
    """What tests were allowed to load; None: unknown."""
    rung: str
    kind: str
    """Mode of the proof. In a proof of an older release: kind of the round."""
    path: str = ""
    """`near` within a leaf, `far` between leaves. Empty in a proof of an older release, whose classes mix both."""


class ClassBaseline(NamedTuple):
    """What the tests of a class reached."""

    port_class: PortClass
    unit: str
    median: float
    tests: int


class Regression(NamedTuple):
    """A class that is slower than in an earlier proof."""

    now: ClassBaseline
    before: ClassBaseline


def compute_baselines(proof: Proof) -> tuple[ClassBaseline, ...]:
    """Return the baseline of each class with enough values; both ends of a test are of the class."""
    values: dict[PortClass, list[float]] = defaultdict(list)
    for result in proof.results:
        port_class = _find_class(proof, result)
        if port_class and result.value is not None:
            values[port_class].append(result.value)
    return tuple(
        ClassBaseline(port_class, PATH_RUNGS[port_class.rung].unit, median(reached), len(reached))
        for port_class, reached in sorted(values.items(), key=lambda entry: str(entry[0]))
        if len(reached) >= LEAST_OF_CLASS
    )


def _find_class(proof: Proof, result: PathResult) -> PortClass | None:
    rung, test = PATH_RUNGS.get(result.rung), result.test
    if rung is None or rung.scale == "reach" or rung.transport == "ip" or test.is_isolated:
        return None
    ends = {
        (facts.server, facts.firmware, facts.rate_gbps * proof.share if facts.rate_gbps else None)
        for port in (test.a, test.b)
        if (facts := proof.facts.get(port)) is not None
    }
    if len(ends) != 1:
        return None
    mode = "screen" if test.kind in {"near", "far"} else test.kind
    return PortClass(*ends.pop(), result.rung, mode, "far" if test.is_far else "near")


def find_regressions(now: Iterable[ClassBaseline], before: Iterable[ClassBaseline]) -> Iterator[Regression]:
    """Yield the classes that are slower than before."""
    earlier = tuple(before)
    for baseline in now:
        counterpart = find_counterpart(baseline, earlier)
        if counterpart and _is_slower(baseline, counterpart):
            yield Regression(baseline, counterpart)


def find_counterpart(baseline: ClassBaseline, before: Iterable[ClassBaseline]) -> ClassBaseline | None:
    """Return the earlier baseline to compare with: of the same firmware, or else the one of most tests."""
    candidates = [other for other in before if _name_counterparts(other) == _name_counterparts(baseline)]
    return max(
        candidates,
        key=lambda other: (other.port_class.firmware == baseline.port_class.firmware, other.tests),
        default=None,
    )


def list_lapsed(now: Iterable[ClassBaseline], before: Iterable[ClassBaseline]) -> Iterator[str]:
    """Yield the earlier classes that have no counterpart now, in words, with the reason where it is known."""
    names = {_name_counterparts(baseline) for baseline in now}
    for baseline in before:
        if _name_counterparts(baseline) not in names:
            yield describe_class(baseline.port_class) + ("" if baseline.port_class.path else _OLD_CLASS)


_OLD_CLASS = (
    ": an older release wrote it, whose classes mix paths within and between leaves; keep this proof's JSON instead"
)


def _name_counterparts(baseline: ClassBaseline) -> tuple[object, ...]:
    """Return what baselines have in common that may be compared: all of their class but the firmware."""
    return (baseline.unit, *baseline.port_class._replace(firmware=""))


def _is_slower(now: ClassBaseline, before: ClassBaseline) -> bool:
    if PATH_RUNGS[now.port_class.rung].scale == "latency":
        return now.median > LATENCY_ABOVE * before.median
    return now.median < MEDIAN_BELOW * before.median


def describe_class(port_class: PortClass) -> str:
    """Return a class in words."""
    rate = "" if port_class.rate_gbps is None else f", {port_class.rate_gbps:g} Gb/s"
    ports = f"{port_class.server or 'unknown server'}, firmware {port_class.firmware or 'unknown'}{rate}"
    # A screen is the mode of nearly all proofs, and the kind of an old class says more than its mode.
    words = [port_class.kind] if port_class.kind != "screen" else []
    words += [port_class.path] if port_class.path else []
    return f"{port_class.rung} ({', '.join(words)}) of {ports}"


def describe_regression(regression: Regression) -> str:
    """Return what is slower, and by how much."""
    now, before = regression
    firmware = before.port_class.firmware
    other = "" if firmware == now.port_class.firmware else f" with firmware {firmware or 'unknown'}"
    values = f"{now.median:.4g} {now.unit}, before {before.median:.4g} {before.unit}"
    return f"{describe_class(now.port_class)}: {values}{other}"
