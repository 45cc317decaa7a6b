"""Culprits from values, the widest scope first: what a wider culprit explains, no narrower one is blamed for.

    investigation = investigate(topology, results)
    request = next(investigation)             # a Round to measure, or a Trace
    request = investigation.send(values)      # and so on, until StopIteration has the Blame

Rails and leaves show in many values, and are judged at once; rails of few ports, or with a sound value, are repeated,
and leaves on whose rail one port is in most low tests. Ports are repeated with good partners. Flows of a cover that
stay low alone are traced. A port counts as proved only by its own repeats.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from trackbed.prove.culprits import Culprit, rank
from trackbed.prove.findings import FAIL_BELOW
from trackbed.prove.flows import MOST_COVER_REPEATS, find_low_flows
from trackbed.prove.leaf_repeats import find_sound_pairs, find_sound_within, group_by_leaf, is_whole
from trackbed.prove.links import Trace, locate_flows
from trackbed.prove.rounds import Round
from trackbed.prove.samples import Samples, Values, count_samples, estimate_sound_spread
from trackbed.prove.suspects import MOST_REPEATS, PortEvidence, Spreads, repeat_suspects
from trackbed.prove.topology import FabricTopology
from trackbed.prove.uplinks import blame_paths

__all__ = ["MOST_COVER_REPEATS", "MOST_REPEATS", "Blame", "Request", "investigate"]

Results = Sequence[tuple[Round, Values]]
Request = Round | Trace
_MOST_OF = 0.8
"""Share of the ports of a leaf, or of the leaves of a rail, that makes the whole suspect."""
_PAIR = 2
"""Ports of a test, each of which counts its value."""
_SHARED_BY_PORT = 0.75
"""Share of the low tests of a rail; of three ports that are all slow, each is in two thirds."""
_FAR_IS_LOW = 0.3
"""Share of low values to other leaves: noise gives 1 %, a leaf whose partner in one of two rounds is broken 50 %."""
_NEAR_OF_FAR = 0.5
"""Share of low values within a leaf, in terms of that to other leaves, up to which its ports are fine."""
_LEAST_PORTS = 3
_MANY_PORTS = 12
"""Ports from which a rail is blamed at once where most ports have no sound value: of fewer, some are slow by chance."""
_NODE_SHARE = 0.75
_UNIT_SHARE, _LEAST_NODES = 0.25, 3


class Blame(NamedTuple):
    """Culprits, the first being the most likely cause, and ports that repeats could not decide."""

    culprits: tuple[Culprit, ...]
    undecided: tuple[int, ...]


class _Acquittal(NamedTuple):
    """The ports of a rail or leaf that its repeats have shown to be sound, and the least value of these repeats."""

    ports: set[int]
    least: float


def investigate(topology: FabricTopology, results: Results) -> Generator[Request, Values, Blame]:
    """Find the culprits of low values; yield what has to be measured or traced for that.

    Raises ValueError if a round has another number of values than of tests.
    """
    samples = count_samples(topology, results)
    rails = _find_rails(topology, samples)
    candidates = [*rails, *_find_leaves(topology, samples, {culprit.rail for culprit in rails})]
    acquitted = yield from _acquit(topology, samples, candidates)
    wide = [culprit for culprit in candidates if culprit not in acquitted]
    sound = [c for c, acquittal in acquitted.items() if acquittal.least >= FAIL_BELOW and not c.leaves]
    is_explained = _mark_explained(topology, [*wide, *sound])
    paths = _find_low_paths(topology, samples, is_explained) | {leaf for c in acquitted for leaf in c.leaves}
    of_one_port = _find_leaves_of_one_port(topology, results, paths)
    evidence = _collect_evidence(topology, samples, is_explained, paths - of_one_port)
    evidence.acquit(port for acquittal in acquitted.values() for port in acquittal.ports)
    suspects = evidence.find_suspects()
    spreads = Spreads(samples.spread, estimate_sound_spread(results, samples, suspects))
    repeats = yield from repeat_suspects(topology, evidence, suspects, spreads)
    within = yield from find_sound_within(topology, samples, repeats.losses, samples.spread)
    paths |= {topology.leaf_of[port] for port in within}
    slow = {port: loss for port, loss in repeats.losses.items() if port not in within}
    for port in (*slow, *repeats.undecided):
        is_explained[port] = 1
    losses = yield from find_low_flows(topology, results, is_explained)
    located = yield from locate_flows(topology, losses)
    between = located or (yield from blame_paths(topology, results, is_explained, paths, samples.spread))
    return Blame(rank([*wide, *between, *_group_ports(topology, samples, slow)]), repeats.undecided)


def _find_rails(topology: FabricTopology, samples: Samples) -> list[Culprit]:
    """Return the rails that are low, most of their leaves too; where all rails are and most ports are, the fabric."""
    medians = [near if near is not None else far for near, far in samples.medians]
    low = {
        rail: value
        for rail, value in enumerate(medians)
        if value is not None and value < FAIL_BELOW and not _share_port(topology, samples, rail)
    }
    measured = sum(value is not None for value in medians)
    if len(low) < measured or measured == 1 == topology.rails:
        wide = [rail for rail in low if _are_leaves_low(samples, rail) and _are_ports_low(topology, samples, rail)]
        return [Culprit("rail", 1 - low[rail], rail=rail) for rail in wide]
    if low and _compute_low_share(samples, range(len(topology.leaf_of))) >= _MOST_OF:
        return [Culprit("fabric", 1 - median(low.values()))]
    return []


def _acquit(
    topology: FabricTopology, samples: Samples, culprits: Iterable[Culprit]
) -> Generator[Round, Values, dict[Culprit, _Acquittal]]:
    """Repeat rails and leaves that may have some slow ports alone; return those that are not slow as a whole."""
    groups: dict[Culprit, list[int]] = {}
    for culprit in culprits:
        if culprit.rail is not None:
            leaves = [p for p in topology.ports[culprit.rail] if topology.leaf_of[p[0]] in culprit.leaves]
            ports = [port for leaf in leaves or topology.ports[culprit.rail] for port in leaf]
            measured = [port for port in ports if samples.near[port] + samples.far[port]]
            is_mixed = _compute_low_share(samples, measured) < _MOST_OF or len(measured) < _MANY_PORTS
            if _share_port(topology, samples, culprit.rail) if culprit.leaves else is_mixed:
                groups[culprit] = measured
    pairs = yield from find_sound_pairs(list(groups.values()), samples.spread)
    return {
        culprit: _Acquittal(sound, least)
        for (culprit, ports), (sound, least) in zip(groups.items(), pairs, strict=True)
        if len(sound) > (1 - _MOST_OF) * len(ports)
    }


def _share_port(topology: FabricTopology, samples: Samples, rail: int) -> bool:
    """Tell whether one port is in most low tests of a rail that has more than two: that port may be slow alone."""
    lows = [samples.near_low[port] + samples.far_low[port] for leaf in topology.ports[rail] for port in leaf]
    return len(lows) > _PAIR and max(lows) >= _SHARED_BY_PORT * (sum(lows) // _PAIR)


def _are_leaves_low(samples: Samples, rail: int) -> bool:
    """Tell whether most leaves are low within themselves: one of two that is dead makes the rail's median low too."""
    medians = samples.leaf_medians[rail]
    return sum(value < FAIL_BELOW for value in medians) >= _MOST_OF * len(medians)


def _are_ports_low(topology: FabricTopology, samples: Samples, rail: int) -> bool:
    """Tell whether most ports have mostly low values: of four, one that is slow is in half of the tests."""
    counts = [
        (samples.near[port] + samples.far[port], samples.near_low[port] + samples.far_low[port])
        for ports in topology.ports[rail]
        for port in ports
    ]
    mostly_low = [2 * low > count for count, low in counts if count]
    return 2 * sum(mostly_low) > len(mostly_low)


def _find_leaves(topology: FabricTopology, samples: Samples, rails: set[int | None]) -> list[Culprit]:
    """Return the leaves whose ports are low towards every partner."""
    culprits = []
    for rail in range(topology.rails):
        for ports in () if rails & {rail, None} else topology.ports[rail]:
            measured = [port for port in ports if samples.near[port] + samples.far[port]]
            if len(measured) >= _LEAST_PORTS and _compute_low_share(samples, measured) >= _MOST_OF:
                loss = 1 - median(samples.sums[p] / (samples.near[p] + samples.far[p]) for p in measured)
                culprits.append(Culprit("leaf", loss, rail=rail, leaves=(topology.leaf_of[ports[0]],)))
    return culprits


def _compute_low_share(samples: Samples, ports: Iterable[int]) -> float:
    """Return the share of measured ports all of whose values are low."""
    counts = [(samples.near[p] + samples.far[p], samples.near_low[p] + samples.far_low[p]) for p in ports]
    measured = [count == low for count, low in counts if count]
    return sum(measured) / len(measured) if measured else 0.0


def _mark_explained(topology: FabricTopology, culprits: Iterable[Culprit]) -> array[int]:
    """Return a flag for each port: 1 if a rail, a leaf or the fabric explains its values."""
    is_explained = array("b", bytes(len(topology.leaf_of)))
    for culprit in culprits:
        for rail in range(topology.rails) if culprit.rail is None else (culprit.rail,):
            for leaf in topology.ports[rail]:
                if not culprit.leaves or topology.leaf_of[leaf[0]] in culprit.leaves:
                    for port in leaf:
                        is_explained[port] = 1
    return is_explained


def _iter_leaf_ports(topology: FabricTopology, is_explained: array[int]) -> Iterator[tuple[int, array[int]]]:
    for rail in topology.ports:
        for ports in rail:
            if not is_explained[ports[0]]:
                yield topology.leaf_of[ports[0]], ports


def _find_low_paths(topology: FabricTopology, samples: Samples, is_explained: array[int]) -> set[int]:
    """Return the leaves whose ports are fine with each other, and low towards other leaves."""
    leaves = set()
    for leaf, ports in _iter_leaf_ports(topology, is_explained):
        near, near_low, far, far_low = (sum(column[port] for port in ports) for column in samples[:4])
        if far and far_low >= _FAR_IS_LOW * far and near_low * far <= _NEAR_OF_FAR * far_low * near:
            leaves.add(leaf)
    return leaves


def _find_leaves_of_one_port(topology: FabricTopology, results: Results, leaves: set[int]) -> set[int]:
    """Return those of `leaves` whose low values to other leaves are all of one port, at either end.

    A port whose loss varies may have a good value within its leaf, and low ones to others.
    """
    lows: dict[int, Counter[int]] = {leaf: Counter() for leaf in leaves}
    totals = Counter[int]()
    for tests, values in results if leaves else ():
        if tests.source_ports or tests.kind == "matrix":
            continue
        for a, b, value in zip(tests.a, tests.b, values, strict=True):
            if value < FAIL_BELOW and topology.leaf_of[a] != topology.leaf_of[b]:
                for leaf in leaves & {topology.leaf_of[a], topology.leaf_of[b]}:
                    lows[leaf].update((a, b))
                    totals[leaf] += 1
    return {leaf for leaf, total in totals.items() if total > 1 and max(lows[leaf].values()) == total}


def _collect_evidence(
    topology: FabricTopology, samples: Samples, is_explained: array[int], paths: set[int]
) -> PortEvidence:
    """Return the values of ports, without those that a wider culprit explains."""
    size = len(topology.leaf_of)
    counts, lows = array("H", bytes(2 * size)), array("H", bytes(2 * size))
    for leaf, ports in _iter_leaf_ports(topology, is_explained):
        for port in ports:
            # A near value that was lost leaves only those that the path may explain; repeats will tell.
            takes_far = leaf not in paths or not samples.near[port]
            counts[port] = samples.near[port] + (samples.far[port] if takes_far else 0)
            lows[port] = samples.near_low[port] + (samples.far_low[port] if takes_far else 0)
    return PortEvidence(counts, lows)


def _group_ports(topology: FabricTopology, samples: Samples, losses: dict[int, float]) -> Iterator[Culprit]:
    """Yield slow ports, grouped: most rails of a node are the node, several nodes of a unit the unit."""
    by_node: dict[int, list[int]] = defaultdict(list)
    for port in losses:
        by_node[port // topology.rails].append(port)
    nodes = {node: ports for node, ports in by_node.items() if _is_node(topology, samples, node, ports)}
    units: dict[int, list[int]] = defaultdict(list)
    for node in nodes:
        units[topology.units[node]].append(node)
    for unit, members in units.items():
        if len(members) >= max(_LEAST_NODES, _UNIT_SHARE * topology.units.count(unit)):
            loss = median(losses[port] for node in members for port in nodes.pop(node))
            yield Culprit("unit", loss, unit=unit, nodes=tuple(sorted(members)))
            for node in members:
                del by_node[node]
    for node in nodes:
        yield Culprit("node", median(losses[port] for port in by_node.pop(node)), nodes=(node,))
    yield from _group_by_leaf(topology, samples, {port: losses[port] for ports in by_node.values() for port in ports})


def _group_by_leaf(topology: FabricTopology, samples: Samples, losses: dict[int, float]) -> Iterator[Culprit]:
    """Yield slow ports; two or more that are all measured ports of a leaf are the leaf."""
    for ports in group_by_leaf(topology, losses):
        rail, leaf = ports[0] % topology.rails, topology.leaf_of[ports[0]]
        if is_whole(topology, samples, ports):
            yield Culprit("leaf", median(losses[port] for port in ports), rail=rail, leaves=(leaf,))
        else:
            yield from (Culprit("port", losses[p], rail=rail, nodes=(p // topology.rails,)) for p in ports)


def _is_node(topology: FabricTopology, samples: Samples, node: int, slow: Sequence[int]) -> bool:
    ports = range(node * topology.rails, (node + 1) * topology.rails)
    measured = sum(bool(samples.near[port] + samples.far[port]) for port in ports)
    return len(slow) > 1 and len(slow) >= _NODE_SHARE * measured
