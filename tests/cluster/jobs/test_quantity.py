from __future__ import annotations

import pytest

from trackbed.cluster.jobs.resources import is_same_quantity

SAME: list[tuple[object, object]] = [
    ("5120Mi", "5Gi"),
    (1, "1"),
    ("1", "1000m"),
    ("1k", "1000"),
    ("1e3", "1000"),
    ("1E", "1e18"),
    ("0.5", "500m"),
]
SAME += [("1u", "1000n"), ("x", "x"), ("1.", "1"), (None, None)]
OTHER: list[tuple[object, object]] = [
    ("1", "2"),
    ("1G", "1Gi"),
    ("1m", "1M"),
    ("x", "1"),
    ("1K", "1000"),
    ("", "0"),
    ("9" * 99, "9" * 98),
    ("1e999", "1"),
]


@pytest.mark.parametrize(("first", "other"), SAME)
def test_the_same_number_in_other_words_is_equal(first: object, other: object) -> None:
    assert is_same_quantity(first, other)


@pytest.mark.parametrize(("first", "other"), OTHER)
def test_other_numbers_and_what_is_none_are_not(first: object, other: object) -> None:
    assert not is_same_quantity(first, other)
