"""What a strict API server refuses, in words."""

from importlib.resources import files

import pytest

from trackbed.lint.corpus import index_documents
from trackbed.lint.manifests import read_manifests
from trackbed.lint.run import lint
from trackbed.lint.schemas.crds import index_crds

_CRDS = index_crds([("rail.yaml", files("trackbed.lint").joinpath("schemas", "example.yaml").read_bytes())])


def _messages(spec: str, version: str = "v1", kind: str = "Rail", extra: str = "") -> list[str]:
    text = f"apiVersion: example.org/{version}\nkind: {kind}\nmetadata: {{name: a}}\n{extra}spec: {spec}\n"
    documents, early = read_manifests(text.encode(), "rail.yaml")
    return [f"{problem.rule}: {problem.message}" for problem in lint(index_documents(documents), _CRDS, early)]


@pytest.mark.parametrize(
    ("spec", "messages"),
    [
        pytest.param("{resource: {name: a}}", [], id="sound"),
        pytest.param("{resource: {name: a}, extra: {any: [1]}}", [], id="kept-unknown"),
        pytest.param("{resource: {name: a}, labels: {a: b}}", [], id="map"),
        pytest.param("{resource: {name: a}, limit: 50%}", [], id="int-or-string"),
        pytest.param("{resource: {name: a}, limit: 5}", [], id="int-or-string-number"),
        pytest.param("{resource: {name: a}, count: }", [], id="null-with-default"),
        pytest.param("{resource: {name: a}, note: ~}", [], id="nullable"),
        pytest.param("{resource: {name: a}, mtu: ~, mode: }", [], id="null-where-optional"),
        pytest.param(
            "{resource: }", ["wrong-type: spec.resource must be a mapping, not nothing"], id="null-where-required"
        ),
        pytest.param("{resource: {name: a}, mtu: 1500.0}", [], id="whole-number-with-point"),
        pytest.param(
            "{resource: {name: a}, rail: 3000000000}",
            ["bad-value: spec.rail: 3000000000 is greater than the maximum of 2147483647"],
            id="int32",
        ),
        pytest.param(
            "{resource: {name: a}, weight: 0}",
            ["bad-value: spec.weight: 0 is less than or equal to the minimum of 0"],
            id="exclusive-bound",
        ),
        pytest.param("{}", ["missing-field: spec.resource is missing"], id="missing"),
        pytest.param(
            "{resource: {name: a}, mtus: 1500}",
            ["unknown-field: unknown field spec.mtus; did you mean 'mtu'?"],
            id="typo",
        ),
        pytest.param(
            "{resource: {name: a}, matchSubnet: true}",
            ["unknown-field: unknown field spec.matchSubnet; it belongs at spec.resource.matchSubnet"],
            id="wrong-level",
        ),
        pytest.param(
            "{resource: {name: a}, mtu: '${MTU}'}",
            [
                (
                    "wrong-type: spec.mtu must be a whole number, not the text '${MTU}', which looks like a variable "
                    "that was not substituted"
                ),
            ],
            id="variable",
        ),
        pytest.param(
            "{resource: {name: a}, mode: Shared}",
            ["bad-choice: spec.mode is 'Shared', it must be shared or exclusive; did you mean 'shared'?"],
            id="choice",
        ),
        pytest.param(
            "{resource: {name: a}, mtu: 1}", ["bad-value: spec.mtu: 1 is less than the minimum of 68"], id="bound"
        ),
        pytest.param(
            "{resource: {name: a}, labels: {a: 1}}", ["wrong-type: spec.labels.a must be text, not 1"], id="map-value"
        ),
        pytest.param("{resource: {name: a}, note: on}", ["wrong-type: spec.note must be text, not true"], id="boolean"),
    ],
)
def test_a_schema_says_what_is_wrong_and_what_would_be_right(spec: str, messages: list[str]) -> None:
    assert _messages(spec) == messages


def test_an_unknown_version_names_the_known_ones() -> None:
    assert _messages("{}", version="v2") == ["unknown-kind: Rail has no version 'v2'; write example.org/v1"]


def test_an_unknown_kind_of_a_known_group_is_refused() -> None:
    assert _messages("{}", kind="Rails") == ["unknown-kind: example.org has no kind 'Rails'; did you mean 'Rail'?"]


def test_status_and_unknown_groups_are_left_alone() -> None:
    assert _messages("{resource: {name: a}}", extra="status: {anything: [1]}\n") == []
    documents, _ = read_manifests(b"apiVersion: other.org/v1\nkind: Thing\nspec: {x: 1}\n", "x.yaml")
    assert lint(index_documents(documents), _CRDS) == ()
