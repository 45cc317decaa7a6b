"""Intervals of whole numbers, held against the sets that they stand for."""

from hypothesis import given
from hypothesis import strategies as st

from trackbed.lint.intervals import Interval, find_overlaps, merge_intervals, subtract_intervals

INTERVALS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 8)).map(lambda pair: (pair[0], sum(pair))), max_size=9
)


def list_numbers(intervals: list[Interval]) -> list[int]:
    return [number for first, last in intervals for number in range(first, last + 1)]


@given(INTERVALS)
def test_merged_intervals_hold_the_same_numbers_once_and_in_order(intervals: list[Interval]) -> None:
    assert list_numbers(merge_intervals(intervals)) == sorted(set(list_numbers(intervals)))


@given(INTERVALS, INTERVALS)
def test_what_exclusions_leave_is_the_difference(intervals: list[Interval], exclusions: list[Interval]) -> None:
    left = subtract_intervals(intervals, exclusions)
    assert list_numbers(left) == sorted(set(list_numbers(intervals)) - set(list_numbers(exclusions)))


@given(INTERVALS)
def test_an_interval_overlaps_the_one_it_is_told_with(intervals: list[Interval]) -> None:
    numbers = [set(list_numbers([interval])) for interval in intervals]
    overlaps = list(find_overlaps(dict(enumerate(intervals))))
    assert all(numbers[key] & numbers[other] for key, other in overlaps)
    assert bool(overlaps) == (sum(map(len, numbers)) > len(set().union(*numbers)))
