"""Resource versions are compared as numbers, where they are numbers."""

from __future__ import annotations

import pytest

from trackbed.cluster.api.metadata import is_older


@pytest.mark.parametrize(
    ("version", "other", "expected"),
    [
        ("9", "10", True),
        ("10", "9", False),
        ("10", "10", False),
        ("0", "1", True),
        ("1" * 5000, "2" * 5000, True),
        ("07", "8", False),
        ("", "8", False),
        ("8", "", False),
        ("7", "8x", False),
        ("7\n", "8", False),
        ("\u0661", "8", False),
    ],
)
def test_a_version_is_older_if_both_are_numbers_and_it_is_the_smaller(version: str, other: str, expected: bool) -> None:
    assert is_older(version, other) is expected
