"""The link or spine that low flows share.

A low flow is traced: packets of the same flow with a short time to live show its spine, where switches route. Then
the leaves at its ends are probed through this spine, with other leaves. A leaf that nearly all low flows have in common
has the faulty uplink; flows without a common leaf share a faulty spine. Without traces there are no probes, and the
spine stays unknown.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from statistics import median
from typing import Literal, NamedTuple

from trackbed.prove.culprits import Culprit
from trackbed.prove.flows import Flow, measure_alone
from trackbed.prove.rounds import FIRST_SOURCE_PORT, Round
from trackbed.prove.samples import Values
from trackbed.prove.topology import FabricTopology

UNTRACED = -1
_LEAST_FLOWS = 2
"""Flows that agree before anything is blamed without probes."""
_MOST_OF = 0.75
"""Share of the low flows that a culprit has in common: noise may add one, and a leaf at other ends has half."""
_LEAST_LEAVES = 3
"""Two leaves cannot tell which of both is low."""
_PROBED_LEAVES = 4
_PROBES_PER_LINK = 5
"""Probes of a leaf through a spine, for each parallel link: 10 miss one of two links with a probability of 0.1 %."""
_FIRST_PROBE_PORT = FIRST_SOURCE_PORT + 0x2000
"""Probes have other source ports than a cover of up to 8192 rounds."""


class Trace(NamedTuple):
    """A request for the spine of each flow: its number in rail and pod, or UNTRACED."""

    a: array[int]
    b: array[int]
    source_ports: array[int]


class Group(NamedTuple):
    """Low flows of a rail and pod through one spine, with their losses."""

    rail: int
    pod: int
    spine: int
    losses: dict[Flow, float]


Requests = Generator[Round | Trace, Values, list[Culprit]]


def locate_flows(topology: FabricTopology, losses: dict[Flow, float]) -> Requests:
    """Trace low flows, probe what they share, and return the links, spines and paths to blame."""
    if not losses:
        return []
    spines = yield _build_trace(losses)
    groups = _group_flows(topology, losses, spines)
    probes = yield from _choose_probes(topology, groups)
    # Probes of all groups run at once: a round has one flow of a leaf, whatever its group.
    low = yield from measure_alone(topology, [flow for flows in _interleave(probes.values()) for flow in flows])
    culprits = []
    for number, group in enumerate(groups):
        flows = {flow for (probed, _), chosen in probes.items() if probed == number for flow in chosen}
        added = {flow: loss for flow, loss in low.items() if flow in flows}
        culprits += _blame_common(topology, group._replace(losses=group.losses | added))
    return culprits


def _group_flows(topology: FabricTopology, losses: dict[Flow, float], spines: Values) -> list[Group]:
    groups: dict[tuple[int, int, int], dict[Flow, float]] = {}
    for flow, spine in zip(losses, spines, strict=True):
        key = flow[0] % topology.rails, topology.pods[topology.leaf_of[flow[0]]], int(spine)
        groups.setdefault(key, {})[flow] = losses[flow]
    return sorted((Group(*key, flows) for key, flows in groups.items()), key=lambda group: -len(group.losses))


def _choose_probes(
    topology: FabricTopology, groups: Sequence[Group]
) -> Generator[Trace, Values, dict[tuple[int, int], list[Flow]]]:
    """Trace candidates; return, for each group by number and leaf at an end of it, flows through the group's spine."""
    candidates = [
        (number, leaf, flow)
        for number, group in enumerate(groups)
        if group.spine != UNTRACED
        for leaf, flow in _iter_probes(topology, group)
    ]
    probes: dict[tuple[int, int], list[Flow]] = {(number, leaf): [] for number, leaf, _ in candidates}
    spines = (yield _build_trace(flow for _, _, flow in candidates)) if candidates else ()
    for (number, leaf, flow), spine in zip(candidates, spines, strict=True):
        chosen = probes[number, leaf]
        if int(spine) == groups[number].spine and len(chosen) < _PROBES_PER_LINK * topology.uplinks.links:
            chosen.append(flow)
    return probes


def _interleave(columns: Iterable[Sequence[Flow]]) -> Iterator[list[Flow]]:
    """Yield the first of each column, then the second, so that rounds have flows of all leaves."""
    lists = list(columns)
    for index in range(max(map(len, lists), default=0)):
        yield [column[index] for column in lists if index < len(column)]


def _iter_probes(topology: FabricTopology, group: Group) -> Iterator[tuple[int, Flow]]:
    """Yield flows to trace: three times as many as must take the spine, from and to each suspected leaf."""
    ends = Counter(topology.leaf_of[port] for flow in group.losses for port in flow[:2])
    suspects = [leaf for leaf, _ in ends.most_common(_PROBED_LEAVES)]
    by_leaf = {topology.leaf_of[ports[0]]: ports for ports in topology.ports[group.rail]}
    members = [leaf for leaf in by_leaf if topology.pods[leaf] == group.pod]
    fresh = [leaf for leaf in members if leaf not in suspects]
    tries = 3 * _PROBES_PER_LINK * topology.uplinks.links_per_leaf
    for number, leaf in enumerate(suspects):
        others = fresh if len(fresh) > 1 else [other for other in members if other != leaf]
        for index in range(tries if len(members) >= _LEAST_LEAVES else 0):
            ports = by_leaf[leaf], by_leaf[others[(number + index) % len(others)]]
            a, b = (ports_of_leaf[index % len(ports_of_leaf)] for ports_of_leaf in ports)
            yield leaf, (*((a, b) if index % 2 else (b, a)), _FIRST_PROBE_PORT + index)


def _blame_common(topology: FabricTopology, group: Group) -> list[Culprit]:
    """Blame what nearly all low flows have in common; fewer than two flows blame nobody."""
    count = len(group.losses)
    if count < _LEAST_FLOWS:
        return []
    leaves = Counter(topology.leaf_of[port] for flow in group.losses for port in flow[:2])
    most = max(leaves.values())
    common = tuple(sorted(leaf for leaf, flows in leaves.items() if flows == most >= _MOST_OF * count))
    spine = None if group.spine == UNTRACED else group.spine
    loss = median(group.losses.values())
    if common:
        kind: Literal["path", "uplink"] = "uplink" if len(common) == 1 else "path"
        return [Culprit(kind, loss, rail=group.rail, leaves=common, pod=group.pod, spine=spine)]
    return [Culprit("spine", loss, rail=group.rail, pod=group.pod, spine=spine)] if count > _LEAST_FLOWS else []


def _build_trace(flows: Iterable[Flow]) -> Trace:
    return Trace(*(array("i", column) for column in zip(*flows, strict=True)))
