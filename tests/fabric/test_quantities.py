from __future__ import annotations

import pytest

from trackbed.fabric.quantities import is_same_quantity, parse_whole

SAME: list[tuple[object, object]] = [
    ("5120Mi", "5Gi"),
    (1, "1"),
    ("1", "1000m"),
    ("1k", "1000"),
    ("1e3", "1000"),
    ("1E", "1e18"),
    ("0.5", "500m"),
]
SAME += [("1u", "1000n"), ("x", "x"), ("1.", "1"), (".5", "500m"), (" 5Gi\n", "5Gi"), (None, None)]
OTHER: list[tuple[object, object]] = [
    ("1", "2"),
    ("1G", "1Gi"),
    ("1m", "1M"),
    ("x", "1"),
    ("1K", "1000"),
    ("", "0"),
    ("9" * 99, "9" * 98),
    ("1e999", "1"),
    (".", "0"),
]


@pytest.mark.parametrize(("first", "other"), SAME)
def test_the_same_number_in_other_words_is_equal(first: object, other: object) -> None:
    assert is_same_quantity(first, other)


@pytest.mark.parametrize(("first", "other"), OTHER)
def test_other_numbers_and_what_is_none_are_not(first: object, other: object) -> None:
    assert not is_same_quantity(first, other)


@pytest.mark.parametrize(
    ("text", "value"),
    [("8", 8), ("64k", 64_000), ("1e3", 1000), ("2000m", 2), ("8.0", 8), ("1.5", None), ("500m", None), ("-1", None)],
)
def test_whole_numbers_are_known_in_any_form(text: str, value: int | None) -> None:
    assert parse_whole(text) == value
