"""What each port reached, for the heat maps of a proof: by node and rail, and by leaf.

The tone of a port:

    fail    it is blamed, or its median is under FAIL_BELOW on a rung
    open    it has no value on the highest rung that was asked for
    warn    its median on that rung is under WARN_BELOW
    ip      that rung is of IP, which says nothing of RDMA
    pass    none of these
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple

from trackbed.prove.culprits import Culprit
from trackbed.prove.findings import FAIL_BELOW, WARN_BELOW
from trackbed.prove.proof import Proof
from trackbed.prove.rungs import PATH_RUNGS

Tone = Literal["fail", "open", "warn", "ip", "pass"]
WORST_FIRST: tuple[Tone, ...] = ("fail", "open", "warn", "ip", "pass")


class Heat(NamedTuple):
    """A port, or a group of ports."""

    tone: Tone
    fraction: float | None
    """Median share of the rate on the highest rung; None without a value."""
    ports: int = 1
    failed: int = 0
    """Ports of it whose tone is fail."""
    open: int = 0
    """Ports of it whose tone is open."""


def list_heat_rungs(rungs: Iterable[str]) -> list[str]:
    """Return the rungs whose values are fractions, lowest first: those that reach, and those with a rate."""
    return [rung for rung in rungs if rung in PATH_RUNGS and PATH_RUNGS[rung].scale != "latency"]


def compute_heat(proof: Proof, rungs: Sequence[str]) -> dict[int, Heat]:
    """Return the heat of each port, by its values on these rungs, lowest first. Raises ValueError without a rung."""
    if not rungs:
        raise ValueError("no rung with a fraction was asked for")
    values: dict[int, dict[str, list[float]]] = defaultdict(dict)
    for result in proof.results:
        fraction = result.finding.fraction
        if fraction is not None and result.rung in rungs and not result.test.is_isolated:
            for port in {result.test.a, result.test.b}:
                values[port].setdefault(result.rung, []).append(fraction)
    blamed = {port for entry in proof.culprits for port in _list_ports(entry.culprit, proof)}
    return {port: _judge(values.get(port, {}), rungs[-1], is_blamed=port in blamed) for port in proof.ends}


def _list_ports(culprit: Culprit, proof: Proof) -> Iterable[int]:
    """Return the ports that a culprit names: its rail, or all rails, of its nodes."""
    rails = proof.topology.rails
    for node in culprit.nodes:
        yield from range(node * rails, (node + 1) * rails) if culprit.rail is None else (node * rails + culprit.rail,)


def _judge(values: Mapping[str, Sequence[float]], top: str, *, is_blamed: bool) -> Heat:
    medians = {rung: median(fractions) for rung, fractions in values.items()}
    fraction = medians.get(top)
    if is_blamed or any(value < FAIL_BELOW for value in medians.values()):
        return Heat("fail", fraction, failed=1)
    if fraction is None:
        return Heat("open", None, open=1)
    if fraction < WARN_BELOW:
        return Heat("warn", fraction)
    return Heat("ip" if PATH_RUNGS[top].transport == "ip" else "pass", fraction)


def merge_heat(heats: Sequence[Heat]) -> Heat:
    """Return the heat of a group: its tone is that of half of the ports or more, the worst one first."""
    fractions = [heat.fraction for heat in heats if heat.fraction is not None]
    tones = [heat.tone for heat in heats]
    tone = next(
        worst
        for number, worst in enumerate(WORST_FIRST)
        if 2 * sum(tone in WORST_FIRST[: number + 1] for tone in tones) >= len(tones)
    )
    return Heat(
        tone,
        median(fractions) if fractions else None,
        len(heats),
        sum(heat.failed for heat in heats),
        sum(heat.open for heat in heats),
    )
