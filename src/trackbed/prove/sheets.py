"""Round sheets: what each node runs in each round, from one start for all.

A sheet is a few rounds of one rung. A node gets its part of it at the start: its steps, and when each round begins.
Steps 2n and 2n + 1 are the two ends of test n; a runner that repeats a test repeats both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trackbed.prove.rungs.rung import ProbedPath, Rung, Step

NodeSteps = Mapping[str, list[tuple[int, Step]]]


class SheetRound(NamedTuple):
    """A round: its length in seconds, the numbered steps of each node, and the paths that they test, by number."""

    seconds: float
    steps: NodeSteps
    paths: Mapping[int, ProbedPath]


class Sheet(NamedTuple):
    """Rounds of one rung, one after the other; round i begins at the start + the lengths of those before it."""

    title: str
    rounds: tuple[SheetRound, ...]


class Answers(NamedTuple):
    """What came back for a sheet: outputs of steps by number, and why nodes are lost, by name."""

    outputs: Mapping[int, object]
    failures: Mapping[str, str]


def build_sheet(rung: Rung, title: str, rounds: Iterable[Mapping[int, ProbedPath]]) -> Sheet:
    """Return the sheet of rounds, each of which maps the numbers of its tests to their paths."""
    return Sheet(title, tuple(SheetRound(rung.seconds, _collect_steps(rung, paths), paths) for paths in rounds))


def _collect_steps(rung: Rung, paths: Mapping[int, ProbedPath]) -> dict[str, list[tuple[int, Step]]]:
    steps: dict[str, list[tuple[int, Step]]] = {}
    for number, path in paths.items():
        for side, (end, step) in enumerate(zip((path.a, path.b), rung.build_steps(path), strict=True)):
            steps.setdefault(end.node, []).append((2 * number + side, step))
    return steps
