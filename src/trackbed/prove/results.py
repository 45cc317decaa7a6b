"""The result of each planned test on a rung: readings of outputs, judged against rates, classes and isolation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from trackbed.prove.facts import PortFacts
from trackbed.prove.findings import Measurement, PathFinding, judge
from trackbed.prove.rungs.rung import Rung, RungReading

LATENCY_ABOVE = 1.5
"""Latency over the median of its class, from which a test is a warning: an assumption, not a measurement."""
LEAST_OF_CLASS = 4
"""Values from which a class has a median."""

Limits = tuple[float | None, float | None]
"""The lower of both ports' rates, and of what PCIe allows them, in Gb/s."""


class PlannedTest(NamedTuple):
    """A test between two ports, in a round from 1 on; a port that is tested alone is both ends, in round 0."""

    round: int
    kind: str
    a: int
    b: int
    source_port: int | None = None
    is_isolated: bool = False
    """Whether the Fabric isolates the two ports."""
    is_far: bool = False
    """Whether the two ports are at different leaves."""


class PathResult(NamedTuple):
    """The result of a planned test on a rung."""

    rung: str
    test: PlannedTest
    finding: PathFinding
    value: float | None = None
    unit: str = ""
    node: str = ""
    """The node that the finding's reason is about, where it is one; the reason does not name it."""


def judge_readings(
    rung: Rung,
    tests: Sequence[PlannedTest],
    readings: Sequence[RungReading],
    facts: Mapping[int, PortFacts],
    share: float = 1.0,
) -> list[PathResult]:
    """Return the result of each test of a rung, in their order. `share`: part of the rate that tests may load."""
    limits = [_compute_limits(test, facts) for test in tests]
    medians = _compute_medians(tests, readings, limits)
    reached = {
        port
        for test, reading in zip(tests, readings, strict=True)
        if reading.state == "measured" and not test.is_isolated
        for port in (test.a, test.b)
    }
    results = []
    for test, reading, limit in zip(tests, readings, limits, strict=True):
        finding = judge_reading(rung, reading, limit, medians.get((test.is_far, *limit)), share)
        if test.is_isolated and finding.verdict == "pass" and not {test.a, test.b} <= reached:
            reason = "nothing arrives, but one of both ports was not seen to reach its own rail either"
            finding = finding._replace(verdict="unknown", reason=reason)
        unit = rung.unit if reading.value is not None else ""
        results.append(PathResult(rung.name, test, finding, reading.value, unit, reading.node))
    return results


def judge_reading(
    rung: Rung, reading: RungReading, limit: Limits, class_median: float | None, share: float = 1.0
) -> PathFinding:
    """Return the finding of a reading. Its fraction is 1 or 0 on a rung whose paths are reached or not."""
    if reading.state == "not-tested":
        return PathFinding("not-tested", rung.transport, None, reading.reason)
    if reading.state == "unclear":
        return PathFinding("unknown", rung.transport, None, reading.reason)
    if reading.state == "failed":
        return PathFinding("fail", rung.transport, 0.0, reading.reason)
    if rung.scale == "rate":
        rate = limit[0]
        median_fraction = class_median / (rate * share) if class_median and rate else None
        return judge(Measurement(reading.value, rate, limit[1], rung.transport, share), median_fraction)
    if rung.scale == "latency" and class_median and (reading.value or 0) > LATENCY_ABOVE * class_median:
        reason = f"{reading.value:g} {rung.unit}, and the median of its class is {class_median:g} {rung.unit}"
        return PathFinding("warn", rung.transport, None, reason)
    return PathFinding("pass", rung.transport, 1.0)


def _compute_limits(test: PlannedTest, facts: Mapping[int, PortFacts]) -> Limits:
    ends = [facts[port] for port in (test.a, test.b) if port in facts]
    rates = [end.rate_gbps for end in ends if end.rate_gbps]
    pcie = [end.pcie_gbps for end in ends if end.pcie_gbps]
    return (min(rates) if len(rates) == 2 else None), min(pcie, default=None)  # noqa: PLR2004 - both ends


def _compute_medians(
    tests: Sequence[PlannedTest], readings: Sequence[RungReading], limits: Sequence[Limits]
) -> dict[tuple[object, ...], float]:
    """Return the median value of each class: within a leaf or between leaves, and limits of the ports."""
    classes: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for test, reading, limit in zip(tests, readings, limits, strict=True):
        if reading.value is not None:
            classes[test.is_far, *limit].append(reading.value)
    return {key: median(values) for key, values in classes.items() if len(values) >= LEAST_OF_CLASS}
