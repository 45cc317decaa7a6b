"""The reachability matrix: one cell for each ordered pair of groups of pod rails, and the pairs behind each row."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trackbed_lab.report.grouping import Grouping, group_ports
from trackbed_lab.run_result import RailPair, RunPort, RunResult

CELL = 15
LABEL = 112
"""Room for labels beside the drawing, at least."""
_RAIL_LABEL = 28
"""Room for the label of a row, such as r7, inside LABEL."""
_CHARACTER = 7
"""Width of a character of a label at 11 px, at most: DejaVu Sans, the widest of the usual fonts."""
FAILURES_MAX = 100
"""Pairs that are listed one by one; the output as JSON has all."""


class Cell(NamedTuple):
    """One pair of groups: its place, colour and tooltip."""

    x: int
    y: int
    tone: str
    """One of local, near, far, isolated, wrong, silent, untested."""
    text: str


class Label(NamedTuple):
    """Text at a row or column, and the rail that gives its colour (-1: none)."""

    x: float
    y: float
    text: str
    rail: int


class PortRow(NamedTuple):
    """One port as sender: its address and the number of its pairs."""

    node: str
    rail: int
    address: str
    pairs: int
    planned: int
    wrong: int
    untested: int


class GroupRow(NamedTuple):
    """The ports of one row of the matrix."""

    name: str
    summary: str
    ok: bool
    ports: tuple[PortRow, ...]


class Matrix(NamedTuple):
    """The drawing, in a square of `size`; `lines` are the positions of the lines between bands."""

    noun: str
    size: int
    cell: int
    label: int
    turned: bool
    """Whether the labels of columns are vertical, because a band is narrower than its label."""
    cells: tuple[Cell, ...]
    rows: tuple[Label, ...]
    bands: tuple[Label, ...]
    lines: tuple[int, ...]
    counts: tuple[tuple[str, str, int], ...]
    """(tone, caption, number of pairs) for the legend."""
    groups: tuple[GroupRow, ...]
    """Empty where a row of the drawing is a port."""
    failures: tuple[str, ...]
    more_failures: int


_CAPTIONS = {
    "wrong": "answered, not as planned",
    "silent": "no answer, though planned",
    "untested": "not tested",
    "far": "over the spine",
    "near": "over one leaf",
    "local": "inside one node",
    "isolated": "isolated, as planned",
}
"""Captions by tone; a cell of several pairs has the first tone that one of them has."""
_NOT_AS_PLANNED = ("wrong", "silent")
"""Tones of pairs that were tested."""


def build_matrix(result: RunResult) -> Matrix:
    """Compute the matrix of a run, sorted by node and then by rail, or by unit and rail where ports are grouped."""
    grouping = group_ports(result)
    tones = list(map(choose_tone, result.pairs))
    counts = Counter(tones)
    bands = _list_bands(grouping)
    wrong = (pair for pair, tone in zip(result.pairs, tones, strict=True) if tone in _NOT_AS_PLANNED)
    failures = list(map(_describe_pair, wrong))
    label = max(LABEL, _RAIL_LABEL + max((_measure(group.band) for group in grouping.groups), default=0))
    return Matrix(
        noun=grouping.noun,
        size=label + len(grouping.groups) * CELL + 1,
        cell=CELL,
        label=label,
        turned=any(_measure(grouping.groups[start].band) > (end - start) * CELL for start, end in bands),
        cells=tuple(_iter_cells(result, tones, grouping, label)),
        rows=tuple(
            Label(label - 6, label + number * CELL + CELL - 4, group.label, group.rail)
            for number, group in enumerate(grouping.groups)
        ),
        bands=tuple(
            Label(middle := label + (start + end) / 2 * CELL, middle, grouping.groups[start].band, -1)
            for start, end in bands
        ),
        lines=tuple(label + start * CELL for start, _ in bands),
        counts=tuple((tone, caption, counts[tone]) for tone, caption in _CAPTIONS.items() if counts[tone]),
        groups=() if grouping.noun == "port" else tuple(_iter_groups(result, tones, grouping)),
        failures=tuple(failures[:FAILURES_MAX]),
        more_failures=max(0, len(failures) - FAILURES_MAX),
    )


def _list_bands(grouping: Grouping) -> list[tuple[int, int]]:
    """Return the number of the first group of each band, and that of the first one behind it."""
    names = [group.band for group in grouping.groups]
    starts = [number for number, name in enumerate(names) if number == 0 or names[number - 1] != name]
    return list(zip(starts, [*starts[1:], len(names)], strict=True))


def _measure(text: str) -> int:
    return len(text) * _CHARACTER


def _iter_cells(result: RunResult, tones: Sequence[str], grouping: Grouping, label: int) -> Iterable[Cell]:
    if grouping.noun == "port":
        for pair, tone in zip(result.pairs, tones, strict=True):
            yield _build_cell(label, _locate_pair(pair, grouping), tone, _describe_pair(pair))
        return
    tones_by_place: dict[tuple[int, int], list[str]] = {}
    for pair, tone in zip(result.pairs, tones, strict=True):
        tones_by_place.setdefault(_locate_pair(pair, grouping), []).append(tone)
    for place, inside in tones_by_place.items():
        names = " to ".join(grouping.groups[number].name for number in place)
        worst = next(tone for tone in _CAPTIONS if tone in inside)
        yield _build_cell(label, place, worst, f"{names}: {_summarize(inside)}")


def _locate_pair(pair: RailPair, grouping: Grouping) -> tuple[int, int]:
    """Return row and column of a pair."""
    ports = grouping.number_by_port
    return ports[pair.from_node, pair.from_rail], ports[pair.to_node, pair.to_rail]


def _build_cell(label: int, place: tuple[int, int], tone: str, text: str) -> Cell:
    row, column = place
    return Cell(label + column * CELL, label + row * CELL, tone, text)


def _summarize(tones: Sequence[str]) -> str:
    planned, untested = _count_planned(tones), tones.count("untested")
    return f"{planned} of {len(tones)} pairs as planned" + (f", {untested} not tested" if untested else "")


def _count_planned(tones: Sequence[str]) -> int:
    return len(tones) - tones.count("untested") - sum(map(tones.count, _NOT_AS_PLANNED))


def _iter_groups(result: RunResult, tones: Sequence[str], grouping: Grouping) -> Iterable[GroupRow]:
    tones_by_port: dict[tuple[str, int], list[str]] = {}
    for pair, tone in zip(result.pairs, tones, strict=True):
        tones_by_port.setdefault((pair.from_node, pair.from_rail), []).append(tone)
    ports_by_group: dict[int, list[RunPort]] = {}
    for port in result.ports:
        ports_by_group.setdefault(grouping.number_by_port[port.node, port.rail], []).append(port)
    for number, group in enumerate(grouping.groups):
        rows = tuple(
            _build_port_row(port, tones_by_port.get((port.node, port.rail), ()))
            for port in ports_by_group.get(number, ())
        )
        ok = all(row.planned == row.pairs for row in rows)
        inside = [tone for row in rows for tone in tones_by_port.get((row.node, row.rail), ())]
        yield GroupRow(group.name, f"{len(rows)} ports, {_summarize(inside)}", ok, rows)


def _build_port_row(port: RunPort, tones: Sequence[str]) -> PortRow:
    planned, untested = _count_planned(tones), tones.count("untested")
    wrong = len(tones) - planned - untested
    return PortRow(port.node, port.rail, port.address, len(tones), planned, wrong, untested)


def choose_tone(pair: RailPair) -> str:
    """Return the colour of a pair; `wrong` and `silent` are not as planned, of `untested` nothing is known."""
    if not pair.tested:
        return "untested"
    if pair.expected and not pair.answered:
        return "silent"
    if not pair.as_planned:
        return "wrong"
    if not pair.expected:
        return "isolated"
    if pair.from_node == pair.to_node:
        return "local"
    return "near" if (pair.hops or 0) <= 1 else "far"


def _describe_pair(pair: RailPair) -> str:
    ends = f"{pair.from_node} rail {pair.from_rail} to {pair.to_node} rail {pair.to_rail}"
    if not pair.tested:
        return f"{ends}: not tested{f', {pair.error}' if pair.error else ''}"
    if not pair.answered:
        return f"{ends}: no answer{', as planned' if not pair.expected else ''}"
    source = "own source address" if pair.source_ok else "ANOTHER SOURCE ADDRESS"
    hops = f"{pair.hops} router{'s' if pair.hops != 1 else ''}"
    planned = f" (planned {pair.expected_hops})" if pair.hops != pair.expected_hops else ""
    return f"{ends}: {hops}{planned}, {source}"
