"""The reachability matrix: one cell for each ordered pair of pod rails."""

from __future__ import annotations

from typing import NamedTuple

from trackbed_lab.run_result import RailPair, RunResult

CELL = 15
LABEL = 112


class Cell(NamedTuple):
    """One pair: its place, colour and tooltip."""

    x: int
    y: int
    tone: str
    """local, near, far, isolated, wrong, silent."""
    text: str


class Label(NamedTuple):
    """Text at a row or column, and the rail that gives its colour (-1: a node's name)."""

    x: float
    y: float
    text: str
    rail: int


class Matrix(NamedTuple):
    """The drawing, in a square of `size`; `lines` are the positions of the lines between nodes."""

    size: int
    cell: int
    label: int
    cells: tuple[Cell, ...]
    rows: tuple[Label, ...]
    nodes: tuple[Label, ...]
    lines: tuple[int, ...]
    counts: tuple[tuple[str, str, int], ...]
    """(tone, caption, number of pairs) for the legend."""


_CAPTIONS = {
    "local": "inside one node",
    "near": "over one leaf",
    "far": "over the spine",
    "isolated": "isolated, as planned",
    "wrong": "answered, not as planned",
    "silent": "no answer, though planned",
}


def build_matrix(result: RunResult) -> Matrix:
    """Compute the matrix of a run, sorted by node and then by rail."""
    order = {(port.node, port.rail): number for number, port in enumerate(result.ports)}
    cells = tuple(_build_cell(pair, order) for pair in result.pairs)
    rows = tuple(
        Label(LABEL - 6, LABEL + number * CELL + CELL - 4, f"r{rail}", rail) for (_, rail), number in order.items()
    )
    lowest = min((rail for _, rail in order), default=0)
    starts = [number for (_, rail), number in order.items() if rail == lowest]
    nodes = tuple(_build_node_label(name, order) for name in dict.fromkeys(name for name, _ in order))
    tones = [cell.tone for cell in cells]
    counts = tuple((tone, caption, tones.count(tone)) for tone, caption in _CAPTIONS.items() if tone in tones)
    lines = tuple(LABEL + number * CELL for number in starts)
    return Matrix(LABEL + len(order) * CELL + 1, CELL, LABEL, cells, rows, nodes, lines, counts)


def _build_node_label(name: str, order: dict[tuple[str, int], int]) -> Label:
    numbers = [number for (owner, _), number in order.items() if owner == name]
    middle = LABEL + (min(numbers) + max(numbers) + 1) / 2 * CELL
    return Label(middle, middle, name, -1)


def _build_cell(pair: RailPair, order: dict[tuple[str, int], int]) -> Cell:
    x = LABEL + order[pair.to_node, pair.to_rail] * CELL
    y = LABEL + order[pair.from_node, pair.from_rail] * CELL
    return Cell(x, y, choose_tone(pair), _render_tooltip(pair))


def choose_tone(pair: RailPair) -> str:
    """Return the colour of a pair; only `wrong` and `silent` are not as planned."""
    if pair.expected and not pair.answered:
        return "silent"
    if not pair.as_planned:
        return "wrong"
    if not pair.expected:
        return "isolated"
    if pair.from_node == pair.to_node:
        return "local"
    return "near" if (pair.hops or 0) <= 1 else "far"


def _render_tooltip(pair: RailPair) -> str:
    ends = f"{pair.from_node} rail {pair.from_rail} to {pair.to_node} rail {pair.to_rail}"
    if not pair.answered:
        return f"{ends}: no answer{', as planned' if not pair.expected else ''}"
    source = "own source address" if pair.source_ok else "ANOTHER SOURCE ADDRESS"
    hops = f"{pair.hops} router{'s' if pair.hops != 1 else ''}"
    planned = f" (planned {pair.expected_hops})" if pair.hops != pair.expected_hops else ""
    return f"{ends}: {hops}{planned}, {source}"
