"""Figures against goals, percentiles, and a plain table."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value and its goal.

    `value` is None if it was not measured, and `why` gives the reason. With `at_least`, more is better. An `optional`
    figure needs programs of other projects, which may be absent.
    """

    name: str
    value: float | None
    goal: float
    unit: str
    at_least: bool = False
    why: str = ""
    optional: bool = False

    @property
    def verdict(self) -> str:
        """`met`, `missed` or `not measured`."""
        if self.value is None:
            return "not measured"
        good = self.value >= self.goal if self.at_least else self.value <= self.goal
        return "met" if good else "missed"


def percentile(values: Sequence[float], fraction: float) -> float:
    """Return the nearest rank: the smallest value that at least `fraction` of all values do not exceed."""
    return sorted(values)[max(0, math.ceil(fraction * len(values)) - 1)]


def ratio(above: float | None, below: float | None) -> float | None:
    """Return one figure divided by another; None if either was not measured."""
    return above / below if above is not None and below else None


def text(figures: Iterable[Figure]) -> str:
    """Render a table of figures: value, goal, and the share of the goal that is used up."""
    rows = [["", "measured", "goal", "measured / goal", ""]]
    for figure in figures:
        share = ratio(figure.value, figure.goal)
        bound = "at least" if figure.at_least else "at most"
        rows.append(
            [
                figure.name,
                f"{number(figure.value)} {figure.unit}".rstrip() if figure.value is not None else "-",
                f"{bound} {figure.goal:g} {figure.unit}".rstrip(),
                number(share),
                f"{figure.verdict}{': ' if figure.why else ''}{figure.why}",
            ]
        )
    return table(rows)


def number(value: float | None) -> str:
    """Render a number with three significant digits, from 100 without decimals; `-` for None."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits end at 100


def table(rows: Sequence[Sequence[str]]) -> str:
    """Render aligned columns: the first and the last to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1

    def cell(at: int, value: str) -> str:
        return value.ljust(widths[at]) if at in (0, last) else value.rjust(widths[at])

    return "\n".join("  ".join(cell(at, value) for at, value in enumerate(row)).rstrip() for row in rows)
