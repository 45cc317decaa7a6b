"""Every rule finds its bad example, leaves its good one alone, and survives any other shape of it."""

import json
from copy import deepcopy
from importlib.resources import files
from typing import Any

import pytest
import yaml

from tests.examples import combine
from trackbed.lint.catalogue import Rule, load_rules
from trackbed.lint.corpus import index_documents
from trackbed.lint.finding import LintProblem
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint
from trackbed.lint.schemas.crds import index_crds

_EXAMPLE = files("trackbed.lint").joinpath("schemas", "example.yaml").read_bytes()
_CRDS = index_crds([("example.yaml", _EXAMPLE)])
_RULES = tuple(load_rules().values())


def _lint(text: str, rule: Rule) -> tuple[LintProblem, ...]:
    documents, early = parse_manifests(text.encode(), "manifest.yaml")
    return lint(index_documents(documents, rule.nodes), _CRDS, early)


@pytest.mark.parametrize("rule", _RULES, ids=lambda rule: rule.id)
def test_the_bad_example_of_a_rule_is_found(rule: Rule) -> None:
    assert rule.id in {problem.rule for problem in _lint(rule.bad, rule)}


@pytest.mark.parametrize("rule", _RULES, ids=lambda rule: rule.id)
def test_nothing_is_found_in_the_good_example_of_a_rule(rule: Rule) -> None:
    assert [
        problem for problem in _lint(rule.good, rule) if problem.severity != "note" or problem.rule == rule.id
    ] == []


@pytest.mark.parametrize("rule", _RULES, ids=lambda rule: rule.id)
def test_a_finding_says_what_and_points_into_the_text(rule: Rule) -> None:
    lines = rule.bad.splitlines()
    for problem in _lint(rule.bad, rule):
        assert problem.message
        assert problem.fix
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1


_JUNK: tuple[Any, ...] = (None, -1, 1 << 70, "{", [[]], {"a": []})


def _load_documents(rule: Rule) -> list[Any]:
    return list(yaml.load_all(rule.bad, Loader=yaml.CSafeLoader))


def _parse_json(value: object) -> Any:
    """Parse a JSON text; return None for any other value."""
    try:
        return json.loads(value) if isinstance(value, str) and value.strip()[:1] in {"{", "["} else None
    except ValueError:
        return None


def _paths(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(inner for key, item in items for inner in _paths(item, (*path, key)))]


def _put(value: Any, path: tuple[Any, ...], junk: object) -> None:
    for part in path[:-1]:
        value = value[part]
    value[path[-1]] = junk


def _format_json(documents: list[Any]) -> str:
    return "\n---\n".join(map(json.dumps, documents))


def _format_blocks(documents: list[Any]) -> str:
    return yaml.dump_all(documents, Dumper=yaml.CSafeDumper, default_flow_style=False)


_JUNK_IN_FORMATS = tuple(
    (junk, format_documents) for junk in _JUNK for format_documents in (_format_json, _format_blocks)
)


@pytest.mark.parametrize("rule", _RULES, ids=lambda rule: rule.id)
def test_each_part_of_a_bad_example_may_be_anything(rule: Rule) -> None:
    documents = _load_documents(rule)
    places = [(number, path) for number, doc in enumerate(documents) for path in _paths(doc)[1:]]
    for (number, path), (junk, format_documents) in combine(places, _JUNK_IN_FORMATS):
        changed = deepcopy(documents)
        _put(changed[number], path, deepcopy(junk))
        assert isinstance(_lint(format_documents(changed), rule), tuple)


_WITH_JSON = tuple(rule for rule in _RULES if '{"' in rule.bad)


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for part in path:
        value = value[part]
    return value


@pytest.mark.parametrize("rule", _WITH_JSON, ids=lambda rule: rule.id)
def test_each_part_of_the_json_inside_may_be_anything(rule: Rule) -> None:
    documents = _load_documents(rule)
    places = [
        (number, place, inner)
        for number, doc in enumerate(documents)
        for place in _paths(doc)[1:]
        for inner in _paths(_parse_json(_at(doc, place)))[1:]
    ]
    for (number, place, inner), (junk, format_documents) in combine(places, _JUNK_IN_FORMATS):
        changed = deepcopy(documents)
        parsed = _parse_json(_at(changed[number], place))
        _put(parsed, inner, deepcopy(junk))
        _put(changed[number], place, json.dumps(parsed))
        assert isinstance(_lint(format_documents(changed), rule), tuple)


MULTUS_CONFIG = """apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderMultusConfig
metadata:
  name: rail0
  annotations:
    a: b
spec:
  cniType: {kind}
  {block}:
    {field}
"""


@pytest.mark.parametrize(
    ("kind", "block", "field", "expected"),
    [
        ("macvlan", "sriov", "resourceName: a/b", {("cni-type-block", 9, 3), ("cni-type-block", 7, 1)}),
        ("macvlan", "macvlan", "master: [ens1f0, ens1f1]", {("bond-missing", 10, 5)}),
    ],
)
def test_what_may_not_be_set_is_pointed_at_by_its_key(
    kind: str, block: str, field: str, expected: set[tuple[str, int, int]]
) -> None:
    text = MULTUS_CONFIG.format(kind=kind, block=block, field=field)
    documents, early = parse_manifests(text.encode(), "m.yaml")
    problems = lint(index_documents(documents, None), None, early)
    assert {(problem.rule, problem.line, problem.column) for problem in problems} == expected
