"""The layout of a table in a width: no value is ever cut.

A table that is too wide first breaks its prose, which are cells of several words, between words. If that is not enough,
each row takes several lines, with some of the columns on each, and so do the headings. A word that is wider than
everything there is stays whole, and the terminal continues it on its next line.
"""

from __future__ import annotations

from itertools import zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GAP = "  "
_INDENT = "  "
_MIN_PROSE = 16
"""Width below which prose is not narrowed, in characters, for it would be hard to read."""


class TableLine(NamedTuple):
    """A line of a table."""

    text: str
    is_heading: bool


class _TableColumn(NamedTuple):
    """A column: its cells, heading first, and the widths between which it may be chosen, in characters."""

    cells: Sequence[str]
    minimum: int
    natural: int


def lay_out(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> Iterator[TableLine]:
    """Yield the lines of a table in a width in characters; without one, each row is one line."""
    cells_of_columns = zip(columns, *rows, strict=True)
    groups = _group_columns([_measure_column(cells) for cells in cells_of_columns], width)
    widths = [_choose_widths(group, width, _INDENT if number else "") for number, group in enumerate(groups)]
    for row in range(len(rows) + 1):
        for number, group in enumerate(groups):
            cells = [column.cells[row] for column in group]
            for line in _lay_out_row(cells, widths[number]):
                yield TableLine(((_INDENT if number else "") + line).rstrip(), row == 0)


def _measure_column(cells: Sequence[str]) -> _TableColumn:
    natural = max(map(len, cells))
    longest_word = max((len(word) for cell in cells for word in cell.split()), default=0)
    return _TableColumn(cells, min(natural, max(longest_word, _MIN_PROSE)), natural)


def _group_columns(columns: Sequence[_TableColumn], width: int | None) -> list[list[_TableColumn]]:
    """Return the columns by the lines on which they stand."""
    groups: list[list[_TableColumn]] = [[]]
    for column in columns:
        indent = _INDENT if len(groups) > 1 else ""
        needed = _add_widths([other.minimum for other in (*groups[-1], column)], indent)
        if width is not None and groups[-1] and needed > width:
            groups.append([])
        groups[-1].append(column)
    return groups


def _add_widths(widths: Sequence[int], indent: str) -> int:
    return len(indent) + sum(widths) + len(_GAP) * (len(widths) - 1)


def _choose_widths(group: Sequence[_TableColumn], width: int | None, indent: str) -> list[int]:
    """Return the widths of the columns of a line: the widest is narrowed first, but none below its minimum."""
    widths = [column.natural for column in group]
    while width is not None and (excess := _add_widths(widths, indent) - width) > 0:
        narrowable = [i for i, column in enumerate(group) if widths[i] > column.minimum]
        if not narrowable:
            break
        widest = max(narrowable, key=widths.__getitem__)
        second = max((widths[i] for i in narrowable if i != widest), default=0)
        step = min(excess, max(widths[widest] - second, 1), widths[widest] - group[widest].minimum)
        widths[widest] -= step
    return widths


def _lay_out_row(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """Yield the lines of some cells of a row."""
    broken = [_break_cell(cell, width) for cell, width in zip(cells, widths, strict=True)]
    for parts in zip_longest(*broken, fillvalue=""):
        yield _GAP.join(part.ljust(width) for part, width in zip(parts, widths, strict=True))


def _break_cell(cell: str, width: int) -> list[str]:
    if len(cell) <= width:
        return [cell]
    return wrap(cell, max(width, 1), break_long_words=False, break_on_hyphens=False)
