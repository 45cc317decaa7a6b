from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.prove.pairing import count_circle_rounds, find_resting_player, pair_by_circle, pair_halves, shift_rail


@given(st.integers(0, 40))
def test_over_all_rounds_of_the_circle_each_two_players_meet_once(count: int) -> None:
    rounds = [list(pair_by_circle(count, number)) for number in range(count_circle_rounds(count))]
    met = sorted((min(pair), max(pair)) for pairs in rounds for pair in pairs)
    assert met == list(combinations(range(count), 2))


@given(st.integers(1, 40), st.integers(0, 200))
def test_in_a_round_of_the_circle_each_player_meets_one_or_rests(count: int, number: int) -> None:
    players = [player for pair in pair_by_circle(count, number) for player in pair]
    resting = find_resting_player(count, number)
    assert sorted(players + ([] if resting is None else [resting])) == list(range(count))


@pytest.mark.parametrize(("count", "rounds"), [(0, 0), (1, 0), (2, 1), (3, 3), (4, 3), (12_500, 12_499)])
def test_rounds_of_the_circle_are_n_minus_1_or_n_with_one_resting(count: int, rounds: int) -> None:
    assert count_circle_rounds(count) == rounds


def test_halves_leave_the_last_of_an_odd_count() -> None:
    assert list(pair_halves(5)) == [(0, 2), (1, 3)]


def test_over_all_shifts_each_rail_meets_each_rail_once() -> None:
    square = [[shift_rail(rail, shift, 8) for rail in range(8)] for shift in range(8)]
    assert all(sorted(row) == list(range(8)) for row in square)
    assert all(sorted(column) == list(range(8)) for column in zip(*square, strict=True))
