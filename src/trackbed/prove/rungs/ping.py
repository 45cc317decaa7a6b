"""Rung ping: the largest packet that RDMA sends arrives whole, from and to the rails' own addresses.

A small packet goes beside it, so that a path with a small MTU is told from a dead one. IP says nothing of RDMA.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trackbed.prove.rungs.rung import (
    PathEnd,
    ProbedPath,
    Rung,
    RungReading,
    Step,
    get_mapping,
    get_number,
    get_text,
    shorten,
)

_SMALL_BYTES = 56
"""Payload of the small packet: that of ping(8)."""
_HEADERS_BYTES = {False: 28, True: 48}
"""IP and ICMP headers, by whether the address is of IPv6."""


def build_steps(path: ProbedPath) -> tuple[Step, Step]:
    """Return the pings of both ends to each other."""
    return _build_step(path.a, path.b, path.packet_bytes), _build_step(path.b, path.a, path.packet_bytes)


def _build_step(source: PathEnd, target: PathEnd, packet_bytes: int) -> Step:
    sizes = (_SMALL_BYTES, packet_bytes - _HEADERS_BYTES[":" in source.address])
    return {
        "pings": [{"source": source.address, "target": target.address, "payloadBytes": payload} for payload in sizes]
    }


def read(path: ProbedPath, a: object, b: object) -> RungReading:
    """Return the round-trip time of the large packet in milliseconds, the longer of both directions."""
    readings = [_read_end(path, end, output) for end, output in ((path.a, a), (path.b, b))]
    for state in ("failed", "not-tested", "unclear"):
        for reading in readings:
            if reading.state == state:
                return reading
    times = [reading.value for reading in readings if reading.value is not None]
    return RungReading("measured", max(times, default=None))


def _read_end(path: ProbedPath, source: PathEnd, output: object) -> RungReading:
    if failure := get_text(output, "failure"):
        return RungReading("not-tested", reason=f"it cannot ping: {shorten(failure)}", node=source.node)
    results = get_mapping(output).get("pings")
    if not isinstance(results, Sequence) or len(results) != 2 or not all(isinstance(r, Mapping) for r in results):  # noqa: PLR2004 - small and large
        return RungReading("unclear", reason="its answer cannot be read", node=source.node)
    where = f"{source.node} to {(path.b if source is path.a else path.a).node}"
    return _judge_results(path, where, *results)


def _judge_results(path: ProbedPath, where: str, small: Mapping[str, Any], large: Mapping[str, Any]) -> RungReading:
    answers = [get_text(result, "outcome") == "answered" for result in (small, large)]
    if path.is_isolated and any(answers):
        return RungReading("failed", reason=f"{where} replies, and the Fabric isolates the rails")
    if path.is_isolated:
        return RungReading("measured")
    if all(answers):
        return RungReading("measured", get_number(large, "rttMs"))
    if answers[0]:
        reason = f"{path.packet_bytes} bytes are lost and {_SMALL_BYTES + 28} arrive: an MTU on the path is too small"
        return RungReading("failed", reason=f"{where}: {reason}{_describe_report(large)}")
    return RungReading("failed", reason=f"{where}: no reply{_describe_report(small)}")


def _describe_report(result: Mapping[str, Any]) -> str:
    """Return which host reported what; empty if no error came back."""
    outcome, mtu = get_text(result, "outcome"), get_number(result, "mtuBytes")
    if outcome in {"", "silent", "answered"}:
        return ""
    reporter, reason = get_text(result, "by") or "its own kernel", get_text(result, "reason") or outcome
    return f" ({reporter}: {shorten(reason)}{f', MTU {mtu:.0f}' if mtu else ''})"


RUNG = Rung("ping", "ip", "ms", 3.0, build_steps, read, tests_isolation=True)
