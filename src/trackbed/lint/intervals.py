"""Intervals of whole numbers: addresses, indexes and lines. Each function takes a time of O(n log n)."""

from collections.abc import Iterable, Iterator, Mapping

Interval = tuple[int, int]
"""The first and the last number, both included."""


def find_overlaps(intervals: Mapping[int, Interval]) -> Iterator[tuple[int, int]]:
    """Yield the key of each interval that overlaps one that begins before it, and the key of that one."""
    furthest: int | None = None
    for first, last, key in sorted((first, last, key) for key, (first, last) in intervals.items()):
        if furthest is not None and first <= intervals[furthest][1]:
            yield key, furthest
        if furthest is None or last > intervals[furthest][1]:
            furthest = key


def merge_intervals(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the intervals in order, those that overlap made one."""
    merged: list[Interval] = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged


def subtract_intervals(intervals: Iterable[Interval], exclusions: Iterable[Interval]) -> list[Interval]:
    """Return what the exclusions leave of the intervals, in order, each number once."""
    parts: list[Interval] = []
    excluded = merge_intervals(exclusions)
    at = 0
    for first, last in merge_intervals(intervals):
        while at < len(excluded) and excluded[at][1] < first:
            at += 1
        start, index = first, at
        while index < len(excluded) and excluded[index][0] <= last:
            if start < excluded[index][0]:
                parts.append((start, excluded[index][0] - 1))
            start, index = excluded[index][1] + 1, index + 1
        if start <= last:
            parts.append((start, last))
        at = max(at, index - 1)  # the last one may reach into the next interval
    return parts
