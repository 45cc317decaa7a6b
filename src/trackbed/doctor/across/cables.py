"""Faults of the cabling that several ports show together: two cables swapped, and a leaf that is down."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from trackbed.doctor.across.excerpt import NodeExcerpt, PluggedCable
from trackbed.doctor.across.occurrence import Occurrence
from trackbed.doctor.evidence import summarize_items
from trackbed.doctor.finding import FaultEnd
from trackbed.fabric.plan.plan import NodePlan

_CableEnd = tuple[FaultEnd, PluggedCable]


def find_swapped_cables(excerpts: Sequence[NodeExcerpt], _: Mapping[str, NodePlan]) -> Iterator[Occurrence]:
    """Yield each pair of ports of which each is at the other's leaf; a pair within one node comes first."""
    misplaced: dict[tuple[str, str], list[_CableEnd]] = {}
    for excerpt in excerpts:
        for cable in excerpt.cables or ():
            if cable.leaf != cable.planned_leaf:
                end = FaultEnd(excerpt.node, cable.rail)
                misplaced.setdefault((cable.planned_leaf, cable.leaf), []).append((end, cable))
    for (planned, actual), plugged in misplaced.items():
        partners = misplaced.get((actual, planned), []) if planned < actual else []
        yield from (_describe_swap(first, second) for first, second in _pair_ends(plugged, partners))


def _pair_ends(plugged: Iterable[_CableEnd], partners: Iterable[_CableEnd]) -> Iterator[tuple[_CableEnd, _CableEnd]]:
    of_node: dict[str, list[_CableEnd]] = {}
    for partner in partners:
        of_node.setdefault(partner[0].node, []).append(partner)
    remaining = []
    for first in plugged:
        if of_node.get(first[0].node):
            yield first, of_node[first[0].node].pop(0)
        else:
            remaining.append(first)
    yield from zip(remaining, chain.from_iterable(of_node.values()), strict=False)


def _describe_swap(*pair: _CableEnd) -> Occurrence:
    ends = sorted(pair, key=lambda item: (item[0].node, item[0].rail or 0))
    sightings = (
        f"{end} is at {cable.leaf} port {cable.leaf_port}, planned {cable.planned_leaf}" for end, cable in ends
    )
    return Occurrence(tuple(end for end, _ in ends), "LLDP: " + "; ".join(sightings))


def find_dark_leaves(excerpts: Sequence[NodeExcerpt], _: Mapping[str, NodePlan]) -> Iterator[Occurrence]:
    """Yield each leaf at which no port has carrier, if ports of two nodes or more are up and planned there."""
    carriers: dict[str, dict[FaultEnd, bool]] = {}
    for excerpt in excerpts:
        for port in excerpt.ports or ():
            if port.has_carrier is not None:
                carriers.setdefault(port.leaf, {})[FaultEnd(excerpt.node, port.rail)] = port.has_carrier
    for leaf, ends in carriers.items():
        if not any(ends.values()) and len({end.node for end in ends}) > 1:
            yield Occurrence(tuple(ends), f"{leaf}: no carrier at {summarize_items([str(end) for end in ends])}")
