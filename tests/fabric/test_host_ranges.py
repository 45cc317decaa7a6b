"""Names of hosts as ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.fabric.host_ranges import fold_hosts


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["gpu-0", "gpu-1", "gpu-3"], "gpu-[0-1,3]"),
        (["gpu-01", "gpu-1"], "gpu-[1,01]"),
        (["n" + "9" * 240, "n2"], f"n{'9' * 240},n2"),
        (["a[1", "n2"], "a[1,n2"),
        ([], ""),
    ],
)
def test_names_fold_where_they_are_names_of_hosts(names: list[str], folded: str) -> None:
    assert fold_hosts(names) == folded


@given(st.lists(st.text(max_size=20), max_size=4))
def test_any_text_folds_to_some(names: list[str]) -> None:
    fold_hosts(names)
