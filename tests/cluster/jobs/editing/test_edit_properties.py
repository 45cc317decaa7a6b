"""Whatever a document is and however it is written: additions are in it, and every line of it is still there."""

from __future__ import annotations

import copy
import json
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import count_examples
from trackbed.cluster.jobs.editing.edits import is_identical
from trackbed.cluster.jobs.editing.job_file import JobFile

_TEXTS = st.sampled_from(
    ["a", "on", "1e3", "x: y", "# z", "é", "two\nlines\n", "", "it's", '"', "0x1f", "a,b", "[", "~"]
)
_KEYS = st.sampled_from(["a", "b", "c-d", "e.f/g", "on", "1"])
_SCALARS = _TEXTS | st.integers(-5, 5) | st.booleans() | st.none()
_VALUES = st.recursive(
    _SCALARS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(_KEYS, values, max_size=3),
    max_leaves=12,
)
_DOCUMENTS = st.dictionaries(_KEYS, _VALUES, min_size=1, max_size=4)
_ADDITIONS = st.lists(
    st.tuples(st.integers(0, 50), st.one_of(_SCALARS, st.just({"n": "v", "m": ["x", {"y": 1}]})), st.booleans()),
    min_size=1,
    max_size=4,
)


def _list_collections(value: Any) -> list[Any]:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    collections = [value] if isinstance(value, (dict, list)) else []
    return collections + [inner for child in children for inner in _list_collections(child)]


def _add(document: dict[str, Any], additions: list[tuple[int, Any, bool]]) -> None:
    """Add values at the ends of collections, in place."""
    for number, (index, value, _) in enumerate(additions):
        collections = _list_collections(document)
        target = collections[index % len(collections)]
        if isinstance(target, dict):
            target[f"new{number}"] = copy.deepcopy(value)
        else:
            target.append(copy.deepcopy(value))


def _check(text: str, additions: list[tuple[int, Any, bool]]) -> str:
    file = JobFile(text.encode(), "x.yaml")
    _add(file.documents[0], additions)
    rendered = file.render()
    again = JobFile(rendered.encode(), "x.yaml")
    assert is_identical(again.documents, file.documents)
    assert again.render() == rendered
    return rendered


@settings(max_examples=count_examples(100))
@given(_DOCUMENTS, _ADDITIONS, st.sampled_from([None, False, True]), st.integers(2, 4), st.booleans())
def test_additions_to_yaml_are_read_back(
    document: dict[str, Any], additions: list[tuple[int, Any, bool]], flow: bool | None, indent: int, ends: bool
) -> None:
    text = yaml.safe_dump(document, default_flow_style=flow, indent=indent, allow_unicode=True, sort_keys=False)
    text = text if ends else text.rstrip("\n")
    rendered = _check(text, additions)
    if flow is False and "[]" not in text and "{}" not in text:
        lines = iter(rendered.splitlines())
        assert [line for line in text.splitlines() if line not in lines] == []


@settings(max_examples=count_examples(100))
@given(_DOCUMENTS, _ADDITIONS, st.sampled_from([None, 2, "\t"]))
def test_additions_to_json_are_json_in_the_same_layout(
    document: dict[str, Any], additions: list[tuple[int, Any, bool]], indent: int | str | None
) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    rendered = _check(text, additions)
    expected = json.loads(text)
    _add(expected, additions)
    assert json.loads(rendered) == expected
