"""Values survive their documents; what does not match is refused with its place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.fabric.documents import DocumentError, parse_document, to_camel, to_document


class Port(NamedTuple):
    """A named tuple."""

    rail: int
    kernel_name: str | None = None


@dataclass(frozen=True)
class Host:
    """A dataclass of every kind of field."""

    name: str
    ports: tuple[Port, ...]
    up: bool = False
    pair: tuple[str, int] = ("", 0)
    files: Mapping[str, bytes | None] = field(default_factory=dict)
    tables: frozenset[int] = frozenset()
    anything: Any = None
    rate: float = 0.0


TEXTS = st.text(max_size=5)
HOSTS = st.builds(
    Host,
    TEXTS,
    st.lists(st.builds(Port, st.integers(), st.none() | TEXTS)).map(tuple),
    st.booleans(),
    st.tuples(TEXTS, st.integers()),
    st.dictionaries(TEXTS, st.none() | st.binary(max_size=5)),
    st.frozensets(st.integers()),
    st.none() | st.booleans() | st.lists(TEXTS),
    st.floats(allow_nan=False, allow_infinity=False),
)


@given(HOSTS)
@pytest.mark.parametrize("key", [str, to_camel])
def test_a_value_survives_its_document(key: Any, host: Host) -> None:
    assert parse_document(json.loads(json.dumps(to_document(host, key))), Host, key) == host


def test_keys_are_the_fields_or_camel_case() -> None:
    assert to_document(Port(1)) == {"rail": 1, "kernel_name": None}
    assert to_document(Port(1), to_camel) == {"rail": 1, "kernelName": None}


def test_a_whole_number_may_come_back_without_its_point() -> None:
    host = parse_document({"name": "n", "ports": [], "rate": 390}, Host)
    assert (host.rate, type(host.rate)) == (390.0, float)


def test_defaults_may_be_left_out_and_unknown_keys_are_ignored() -> None:
    assert parse_document({"name": "n", "ports": [{"rail": 1}], "new": 1}, Host) == Host("n", (Port(1),))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"name": 1}, "expected str, got int - at `$.name`"),
        ({"up": 1}, "expected bool, got int - at `$.up`"),
        ({"rate": float("nan")}, "expected a finite number, got nan - at `$.rate`"),
        ({"rate": 10**400}, f"expected a finite number, got 1{39 * '0'} - at `$.rate`"),
        ({"rate": True}, "expected a finite number, got True - at `$.rate`"),
        ({"name": None}, "expected str, got NoneType - at `$.name`"),
        ({"ports": {}}, "expected list, got dict - at `$.ports`"),
        ({"ports": [{"rail": 1}, {"rail": True}]}, "expected int, got bool - at `$.ports[1].rail`"),
        ({"ports": [{}]}, "missing required field `rail` - at `$.ports[0]`"),
        ({"pair": ["a"]}, "expected an array of 2, got 1 - at `$.pair`"),
        ({"pair": ["a", "b"]}, "expected int, got str - at `$.pair[1]`"),
        ({"files": {"/etc/x": "%"}}, " - at `$.files./etc/x`"),
        ({"files": []}, "expected dict, got list - at `$.files`"),
    ],
)
def test_what_does_not_match_is_refused_with_its_place(part: dict[str, object], message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_document({"name": "n", "ports": []} | part, Host)
    assert message in str(caught.value)


def test_a_value_without_a_form_in_json_is_refused() -> None:
    with pytest.raises(TypeError, match="a object has no form in JSON"):
        to_document({"a": object()})
