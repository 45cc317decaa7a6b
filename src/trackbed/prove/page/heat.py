"""What each port reached, for the heat maps of a proof: by node and rail, and by leaf.

The tone of a port:

    fail    it is blamed, or its median on the highest rung is under FAIL_BELOW
    open    it has no value on the highest rung that was asked for
    warn    its median on that rung is under WARN_BELOW
    ip      that rung is of IP, which says nothing of RDMA
    pass    none of these

Tests with a blamed partner say nothing of a port, unless it has no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Literal, NamedTuple

from trackbed.prove.culprits import Culprit
from trackbed.prove.explanations import list_ports
from trackbed.prove.findings import FAIL_BELOW, WARN_BELOW
from trackbed.prove.proof import Proof
from trackbed.prove.rungs import PATH_RUNGS
from trackbed.prove.topology import FabricTopology

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


def find_heat_rung(rungs: Iterable[str]) -> str | None:
    """Return the highest rung whose values are shares of a rate, or whether something arrives; None without one."""
    return next(
        (rung for rung in reversed([*rungs]) if rung in PATH_RUNGS and PATH_RUNGS[rung].scale != "latency"), None
    )


def compute_heat(proof: Proof, rung: str) -> dict[int, Heat]:
    """Return the heat of each port, by its values on a rung."""
    blamed = {port for entry in proof.culprits for port in _iter_ports(entry.culprit, proof.topology)}
    values: dict[int, tuple[list[float], list[float]]] = {port: ([], []) for port in proof.ends}
    for result in proof.results:
        fraction, test = result.finding.fraction, result.test
        if fraction is not None and result.rung == rung and not test.is_isolated:
            for port, partner in ((test.a, test.b), (test.b, test.a)):
                values[port][partner in blamed].append(fraction)
    return {port: _judge(*values[port], rung, is_blamed=port in blamed) for port in proof.ends}


def _iter_ports(culprit: Culprit, topology: FabricTopology) -> Iterator[int]:
    """Yield the ports that a culprit consists of; paths, uplinks, spines and the fabric between leaves have none."""
    if culprit.nodes:
        yield from list_ports(culprit, topology.rails)
    elif culprit.kind in {"rail", "leaf"}:
        for leaf in topology.ports[culprit.rail or 0]:
            if not culprit.leaves or topology.leaf_of[leaf[0]] in culprit.leaves:
                yield from leaf


def _judge(with_sound: Sequence[float], with_blamed: Sequence[float], rung: str, *, is_blamed: bool) -> Heat:
    fractions = with_sound or with_blamed
    fraction = median(fractions) if fractions else None
    if is_blamed or (fraction is not None and fraction < FAIL_BELOW):
        return Heat("fail", fraction, failed=1)
    if fraction is None:
        return Heat("open", None, open=1)
    if fraction < WARN_BELOW:
        return Heat("warn", fraction)
    return Heat("ip" if PATH_RUNGS[rung].transport == "ip" else "pass", fraction)


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
