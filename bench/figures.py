"""Figures against goals, percentiles, and a plain table."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value beside its goal.

    `value` None means not measured, and `why` says why. `at_least` says that more is better. `optional`: it takes
    others' programs to measure, which may not be there.
    """

    what: str
    value: float | None
    goal: float
    unit: str
    at_least: bool = False
    why: str = ""
    optional: bool = False

    @property
    def verdict(self) -> str:
        """One of met, missed, not measured."""
        if self.value is None:
            return "not measured"
        good = self.value >= self.goal if self.at_least else self.value <= self.goal
        return "met" if good else "missed"


def percentile(values: Sequence[float], fraction: float) -> float:
    """Nearest rank: the smallest value that at least `fraction` of all values do not exceed."""
    return sorted(values)[max(0, math.ceil(fraction * len(values)) - 1)]


def ratio(above: float | None, below: float | None) -> float | None:
    """One figure over another, None where either was not measured."""
    return above / below if above is not None and below else None


def text(figures: Iterable[Figure]) -> str:
    """Value, goal and the share of the goal that is used up, a line each."""
    rows = [["", "measured", "goal", "measured / goal", ""]]
    for figure in figures:
        share = ratio(figure.value, figure.goal)
        bound = "at least" if figure.at_least else "at most"
        rows.append(
            [
                figure.what,
                f"{number(figure.value)} {figure.unit}".rstrip() if figure.value is not None else "-",
                f"{bound} {figure.goal:g} {figure.unit}".rstrip(),
                number(share),
                f"{figure.verdict}{': ' if figure.why else ''}{figure.why}",
            ]
        )
    return table(rows)


def number(value: float | None) -> str:
    """Three significant digits or whole numbers, whichever says more."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits end at 100


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, the first to the left, the others to the right but the last."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1

    def cell(at: int, value: str) -> str:
        return value.ljust(widths[at]) if at in (0, last) else value.rjust(widths[at])

    return "\n".join("  ".join(cell(at, value) for at, value in enumerate(row)).rstrip() for row in rows)
