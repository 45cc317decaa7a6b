"""What ports of one kind reached: kept with a proof, and compared with a later one.

A class is what should reach the same: model of the server, firmware of the NIC, rate of the ports, and whether a test
crosses leaves. The median of a class is compared with that of the same firmware, or else of any other firmware on the
same server, since an update is what often makes a whole class slower. A single port is judged by its own class.
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
    """Kind of the round: near is within a leaf, far between leaves."""


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
    return PortClass(*ends.pop(), result.rung, test.kind) if len(ends) == 1 else None


def find_regressions(now: Iterable[ClassBaseline], before: Iterable[ClassBaseline]) -> Iterator[Regression]:
    """Yield the classes that are slower than before."""
    earlier = tuple(before)
    for baseline in now:
        counterpart = find_counterpart(baseline, earlier)
        if counterpart and _is_slower(baseline, counterpart):
            yield Regression(baseline, counterpart)


def find_counterpart(baseline: ClassBaseline, before: Iterable[ClassBaseline]) -> ClassBaseline | None:
    """Return the earlier baseline to compare with: of the same firmware, or else the one of most tests."""
    candidates = [
        other
        for other in before
        if other.unit == baseline.unit
        and other.port_class._replace(firmware="") == baseline.port_class._replace(firmware="")
    ]
    return max(
        candidates,
        key=lambda other: (other.port_class.firmware == baseline.port_class.firmware, other.tests),
        default=None,
    )


def _is_slower(now: ClassBaseline, before: ClassBaseline) -> bool:
    if PATH_RUNGS[now.port_class.rung].scale == "latency":
        return now.median > LATENCY_ABOVE * before.median
    return now.median < MEDIAN_BELOW * before.median


def describe_class(port_class: PortClass) -> str:
    """Return a class in words."""
    rate = "" if port_class.rate_gbps is None else f", {port_class.rate_gbps:g} Gb/s"
    ports = f"{port_class.server or 'unknown server'}, firmware {port_class.firmware or 'unknown'}{rate}"
    return f"{port_class.rung} ({port_class.kind}) of {ports}"


def describe_regression(regression: Regression) -> str:
    """Return what is slower, and by how much."""
    now, before = regression
    firmware = before.port_class.firmware
    other = "" if firmware == now.port_class.firmware else f" with firmware {firmware or 'unknown'}"
    values = f"{now.median:.4g} {now.unit}, before {before.median:.4g} {before.unit}"
    return f"{describe_class(now.port_class)}: {values}{other}"
