"""Planned tests that were low by chance: they get the value of their repeat.

A single flow of a cover that was once at its rate shows that its path is sound, since other flows on a link can only
lower it. A test within a leaf is cleared only if each repeat of the same two ports was at its rate, and nothing that
it runs over is blamed or undecided. A test between leaves is not: its repeats load the links less than its round did.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from trackbed.prove.blame import Blame
from trackbed.prove.culprits import concerns
from trackbed.prove.findings import FAIL_BELOW
from trackbed.prove.results import PathResult, PlannedTest
from trackbed.prove.topology import FabricTopology

_Key = tuple[int, int, int | None]
"""Both ports, and the source port of a single flow, which goes from the first to the second."""


def replace_cleared(
    results: Sequence[PathResult], repeated: Iterable[PathResult], blame: Blame, topology: FabricTopology
) -> list[PathResult]:
    """Return results, those that repeats have cleared with the repeat's value; the planned one is in their reason."""
    repeats: dict[_Key, list[PathResult]] = defaultdict(list)
    for result in repeated:
        repeats[_get_key(result.test)].append(result)
    return [
        _replace(result, cleared)
        if result.finding.verdict == "fail"
        and (cleared := _find_cleared(result, repeats.get(_get_key(result.test), ()), blame, topology))
        else result
        for result in results
    ]


def _get_key(test: PlannedTest) -> _Key:
    ends = (test.a, test.b) if test.source_port else (min(test.a, test.b), max(test.a, test.b))
    return (*ends, test.source_port)


def _find_cleared(
    result: PathResult, repeats: Sequence[PathResult], blame: Blame, topology: FabricTopology
) -> PathResult | None:
    """Return the repeat that clears a planned test; None if there is none."""
    test = result.test
    sound = [repeat for repeat in repeats if (repeat.finding.fraction or 0.0) >= FAIL_BELOW]
    if test.source_port:
        return max(sound, key=_get_fraction, default=None)
    if test.is_far or len(sound) < len(repeats) or {test.a, test.b} & {*blame.undecided}:
        return None
    if any(concerns(culprit, test.a, test.b, topology) for culprit in blame.culprits):
        return None
    return min(sound, key=_get_fraction, default=None)


def _get_fraction(result: PathResult) -> float:
    return result.finding.fraction or 0.0


def _replace(planned: PathResult, repeat: PathResult) -> PathResult:
    before = planned.finding.reason or "failed"
    reason = f"{repeat.finding.reason or 'passed'} when it was repeated; before: {before}"
    return repeat._replace(test=planned.test, finding=repeat.finding._replace(reason=reason))
