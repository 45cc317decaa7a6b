"""The content of the page of a proof as plain values; the template only loops over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from trackbed.prove.page.heat import WORST_FIRST, Heat, Tone, compute_heat, find_heat_rung, merge_heat
from trackbed.prove.proof import Proof
from trackbed.prove.report import ProofReport, list_details
from trackbed.prove.topology import NO_LEAF

NODES_MAX = 256
"""Rows of nodes at most. Of a larger fabric the nodes with something to see are shown, the worst first."""
LIST_MAX = 200
"""Lines of a list at most."""
_STAMPS: Mapping[int, Tone] = {0: "pass", 1: "fail", 3: "open"}


class HeatCell(NamedTuple):
    """A port, or a leaf."""

    tone: str
    """That of its heat, with `some` for a leaf of which ports failed; `none` where there is no port."""
    label: str
    title: str


class HeatRow(NamedTuple):
    """A node or a unit, with a cell for each rail."""

    name: str
    cells: tuple[HeatCell, ...]


class ProofPage(NamedTuple):
    """The page."""

    title: str
    subtitle: str
    stamp: str
    """Tone of the verdict."""
    report: ProofReport
    unit: str
    """What the numbers in cells are."""
    rails: tuple[str, ...]
    units: tuple[HeatRow, ...]
    nodes: tuple[HeatRow, ...]
    hidden: int
    """Nodes that are not shown, since they are as they should be, or since there are too many."""
    lists: tuple[tuple[str, tuple[str, ...]], ...]
    """Titles and lines of what is not in a table."""
    list_max: int


def build_page(proof: Proof, report: ProofReport, title: str, subtitle: str) -> ProofPage:
    """Return the page of a proof."""
    rung = find_heat_rung(rung.rung for rung in report.rungs)
    heat = compute_heat(proof, rung) if rung else {}
    nodes = _choose_nodes(proof, heat)
    return ProofPage(
        title,
        subtitle,
        _STAMPS[report.status],
        report,
        f"percent of {'' if proof.share == 1 else f'{proof.share:g} × '}the rate on {rung}",
        tuple(f"rail {rail}" for rail in range(proof.topology.rails)),
        tuple(_iter_units(proof, heat)) if heat else (),
        tuple(_build_node(proof, heat, node) for node in nodes) if heat else (),
        len(proof.topology.nodes) - len(nodes),
        list_details(report),
        LIST_MAX,
    )


def _choose_nodes(proof: Proof, heat: Mapping[int, Heat]) -> list[int]:
    """Return the nodes to show, in order of slot."""
    rails, count = proof.topology.rails, len(proof.topology.nodes)
    if count <= NODES_MAX:
        return list(range(count))
    worst: dict[int, int] = {}
    for port, port_heat in heat.items():
        place = WORST_FIRST.index(port_heat.tone)
        if place < WORST_FIRST.index("ip"):
            worst[port // rails] = min(place, worst.get(port // rails, place))
    return sorted(sorted(worst, key=lambda node: (worst[node], node))[:NODES_MAX])


def _iter_units(proof: Proof, heat: Mapping[int, Heat]) -> Iterator[HeatRow]:
    """Yield a row for each unit: its leaf of each rail."""
    topology = proof.topology
    by_unit: dict[int, dict[int, dict[int, list[Heat]]]] = {}
    for port, port_heat in heat.items():
        node, rail = divmod(port, topology.rails)
        by_rail = by_unit.setdefault(topology.units[node], {})
        by_rail.setdefault(rail, {}).setdefault(topology.leaf_of[port], []).append(port_heat)
    for unit, by_rail in sorted(by_unit.items()):
        cells = (_build_leaf(proof, by_rail.get(rail, {})) for rail in range(topology.rails))
        yield HeatRow(f"unit {unit}", tuple(cells))


def _build_leaf(proof: Proof, by_leaf: Mapping[int, Sequence[Heat]]) -> HeatCell:
    if not by_leaf:
        return HeatCell("none", "", "no port")
    merged = merge_heat([port_heat for group in by_leaf.values() for port_heat in group])
    names = ", ".join(proof.topology.leaves[leaf] for leaf in by_leaf if leaf != NO_LEAF)
    title = f"{names}: {merged.ports} ports, {merged.failed} failed, {merged.open} not tested"
    bad = f" ({merged.failed} bad)" if merged.failed else ""
    tone = f"{merged.tone} some" if merged.failed else merged.tone
    return HeatCell(tone, _format(merged) + bad, title)


def _build_node(proof: Proof, heat: Mapping[int, Heat], node: int) -> HeatRow:
    topology = proof.topology
    ports = range(node * topology.rails, (node + 1) * topology.rails)
    return HeatRow(topology.nodes[node], tuple(_build_port(proof, heat.get(port), port) for port in ports))


def _build_port(proof: Proof, port_heat: Heat | None, port: int) -> HeatCell:
    if port_heat is None:
        return HeatCell("none", "", "no port")
    end = proof.ends[port]
    return HeatCell(port_heat.tone, _format(port_heat), f"{end.node} rail {end.rail}, {end.address}: {port_heat.tone}")


def _format(port_heat: Heat) -> str:
    return "–" if port_heat.fraction is None else f"{100 * port_heat.fraction:.0f}"
