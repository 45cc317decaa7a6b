"""The values of the chart: what they may be, what they are, and what the page says of them are one thing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tools.pages.chart_page import read_schema, read_values


def test_every_value_has_a_default_and_a_rule() -> None:
    assert set(_ruled(read_schema(), ())) - {("global",)} == set(_given(read_values(), read_schema(), ()))


def test_no_rule_lets_an_unknown_value_pass() -> None:
    assert [
        place for place, rule in _rules(read_schema(), ()) if "properties" in rule and rule["additionalProperties"]
    ] == []


def _rules(rule: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    yield place, rule
    for name, inner in rule.get("properties", {}).items():
        yield from _rules(inner, (*place, name))


def _ruled(rule: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Places of values by the schema; what is free below a place is none."""
    for name, inner in rule["properties"].items():
        if "properties" in inner and name != "issuerRef":
            yield from _ruled(inner, (*place, name))
        else:
            yield (*place, name)


def _given(values: Mapping[str, Any], rule: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Places of values by values.yaml."""
    for name, inner in values.items():
        if "properties" in rule["properties"][name] and inner:
            yield from _given(inner, rule["properties"][name], (*place, name))
        else:
            yield (*place, name)
