"""JSON Patch (RFC 6902): doing the operations one by one makes the one value of the other."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.cluster.webhook.patch import build_patch

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(min_value=2) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b/c", "~", "~1", ""]), inner),
    max_leaves=12,
)
CASES: dict[str, tuple[Any, Any, list[dict[str, Any]]]] = {
    "equal": ({"a": [1]}, {"a": [1]}, []),
    "a key": ({}, {"a": 1}, [{"op": "add", "path": "/a", "value": 1}]),
    "a key with a slash": ({"m": {}}, {"m": {"a/b": "x"}}, [{"op": "add", "path": "/m/a~1b", "value": "x"}]),
    "a key with a tilde": ({"a~b": 1}, {}, [{"op": "remove", "path": "/a~0b"}]),
    "a tilde and a one": ({"~1": 1}, {"~1": 2}, [{"op": "replace", "path": "/~01", "value": 2}]),
    "null is not absent": ({"a": None}, {"a": {}}, [{"op": "replace", "path": "/a", "value": {}}]),
    "appended": ([1], [1, 2, 3], [{"op": "add", "path": "/-", "value": 2}, {"op": "add", "path": "/-", "value": 3}]),
    "shortened": ([1, 2, 3], [1], [{"op": "remove", "path": "/2"}, {"op": "remove", "path": "/1"}]),
    "in a list": (
        {"c": [{"n": 1}, {"n": 2}]},
        {"c": [{"n": 1}, {"n": 3}]},
        [{"op": "replace", "path": "/c/1/n", "value": 3}],
    ),
}


@pytest.mark.parametrize(("before", "after", "patch"), CASES.values(), ids=CASES)
def test_a_difference_is_as_small_as_a_person_would_write_it(
    before: Any, after: Any, patch: list[dict[str, Any]]
) -> None:
    assert list(build_patch(before, after)) == patch


@given(JSON, JSON)
def test_the_operations_make_one_value_of_the_other(before: Any, after: Any) -> None:
    held = {"top": copy.deepcopy(before)}
    for operation in build_patch({"top": before}, {"top": after}):
        do(held, operation)
    assert repr(sorted_deep(held)) == repr(sorted_deep({"top": after}))


def do(held: Any, operation: dict[str, Any]) -> None:
    """One operation, as RFC 6902 and RFC 6901 have it."""
    *steps, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    for step in steps:
        held = held[int(step)] if isinstance(held, list) else held[step]
    key: Any = last if isinstance(held, dict) else len(held) if last == "-" else int(last)
    if operation["op"] == "remove":
        del held[key]
    elif isinstance(held, list) and operation["op"] == "add":
        held.insert(key, operation["value"])
    else:
        assert (key in held if isinstance(held, dict) else key < len(held)) == (operation["op"] == "replace")
        held[key] = operation["value"]


def sorted_deep(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: sorted_deep(value[key]) for key in sorted(value)}
    return [sorted_deep(item) for item in value] if isinstance(value, list) else value
