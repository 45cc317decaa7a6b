"""The finding of a test: its rate against that of the ports, what PCIe allows, and what its class reaches.

The rate of the ports is what the Fabric states, or else what they negotiated.

    fail        under 0.90 of that rate
    warn        under 0.95 of it, or under 0.97 of the median of its class (rate of the ports, what PCIe allows, and
                whether it crosses leaves)
    pass        the traffic reached the rate; over IP, that is no pass for RDMA
    unknown     the value cannot be judged: no rate is known
    not-tested  planned, without a value

A test that was planned has exactly one of them, so planned = tested + not-tested.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Literal, NamedTuple

FAIL_BELOW, WARN_BELOW, MEDIAN_BELOW = 0.90, 0.95, 0.97

MOST_FRACTION = 1.05
"""A higher rate was measured or read wrongly, as where one of both is in another unit."""

ProofVerdict = Literal["pass", "warn", "fail", "unknown", "not-tested"]
Transport = Literal["rdma", "ip"]


class Measurement(NamedTuple):
    """What a test measured; a rate is None where it could not be read."""

    gbps: float | None
    rate_gbps: float | None
    """The lower of the rates of both ports: as the Fabric states, or else as negotiated."""
    pcie_gbps: float | None = None
    """The lower of what PCIe allows both ports: lanes × speed, without its headers."""
    transport: Transport = "rdma"
    share: float = 1.0
    """Part of the rate that the test was allowed to load, over 0 up to 1."""


class PathFinding(NamedTuple):
    """Verdict, transport and reason of a test."""

    verdict: ProofVerdict
    transport: Transport
    fraction: float | None
    """Measured rate as a fraction of that of the ports, or of the share of it that was allowed."""
    reason: str = ""


def judge(measurement: Measurement | None, class_median: float | None = None) -> PathFinding:
    """Return the finding of a test; None was planned and gave no value.

    `class_median` is the median fraction of the test's class; None if the class has too few values.
    """
    if measurement is None:
        return PathFinding("not-tested", "rdma", None, "no value came back; repeat the round for these nodes")
    gbps, rate, transport = measurement.gbps, measurement.rate_gbps, measurement.transport
    if not rate or not 0 < rate < float("inf"):
        return PathFinding(
            "unknown",
            transport,
            None,
            "no negotiated rate was read; compare `ethtool` of both ports, or state spec.rate",
        )
    if gbps is None or not 0 <= gbps < float("inf"):
        return PathFinding("unknown", transport, None, "the rate that was measured cannot be read; repeat the round")
    fraction = gbps / (rate * measurement.share)
    if fraction > MOST_FRACTION:
        reason = f"{gbps:g} Gb/s is more than {_describe_goal(measurement)}: one of the two is not what it seems"
        return PathFinding("unknown", transport, None, reason)
    verdict, reason = _compare(fraction, measurement, class_median)
    return PathFinding(verdict, transport, fraction, reason)


def count_verdicts(findings: Iterable[PathFinding]) -> dict[ProofVerdict, int]:
    """Return how many tests have each verdict; their sum is what was planned."""
    counts = Counter(finding.verdict for finding in findings)
    verdicts: tuple[ProofVerdict, ...] = ("pass", "warn", "fail", "unknown", "not-tested")
    return {verdict: counts[verdict] for verdict in verdicts}


def _compare(fraction: float, measurement: Measurement, class_median: float | None) -> tuple[ProofVerdict, str]:
    pcie, rate = measurement.pcie_gbps, (measurement.rate_gbps or 0) * measurement.share
    share = f"{fraction:.0%} of {_describe_goal(measurement)}"
    narrow = pcie is not None and 0 < pcie < rate
    if fraction < FAIL_BELOW:
        if narrow and pcie and fraction * rate >= FAIL_BELOW * pcie:
            return (
                "fail",
                f"{share}: PCIe allows {pcie:g} Gb/s; compare lanes and speed of the slot (lspci -vv, LnkSta)",
            )
        return "fail", share
    if fraction < WARN_BELOW:
        return "warn", share
    if class_median and fraction < MEDIAN_BELOW * class_median:
        return "warn", f"{share}, and its class reaches {class_median:.0%}"
    return "pass", share


def _describe_goal(measurement: Measurement) -> str:
    part = "" if measurement.share == 1 else f"{measurement.share:.2g} × "
    return f"{part}the ports' {measurement.rate_gbps:g} Gb/s"
