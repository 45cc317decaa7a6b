"""Files to documents: many in a file, lists, JSON, and input that means harm."""

import json

import pytest

from trackbed.fabric.model.problems import SpecError
from trackbed.lint.corpus import index_documents
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint

_POOL = """apiVersion: nv-ipam.nvidia.com/v1alpha1
kind: IPPool
metadata: {name: rail0, namespace: nvidia-network-operator}
spec: {subnet: 10.1.7.0/16, perNodeBlockSize: 8}
"""


def test_a_file_may_hold_many_documents_and_empty_ones() -> None:
    documents, hits = parse_manifests(f"---\n{_POOL}---\n---\n# nothing\n---\n{_POOL}".encode(), "pools.yaml")
    assert [doc.title for doc in documents] == ["IPPool rail0", "IPPool rail0"]
    assert hits == []


def test_the_items_of_a_list_are_objects_with_lines_of_their_own() -> None:
    items = "".join(f"  {'- ' if n == 0 else '  '}{line}\n" for n, line in enumerate(_POOL.splitlines()))
    documents, early = parse_manifests(f"apiVersion: v1\nkind: List\nitems:\n{items}".encode(), "list.yaml")
    (problem,) = lint(index_documents(documents), None, early)
    assert (problem.rule, problem.line, problem.column, problem.object) == ("host-bits", 7, 20, "IPPool rail0")


def test_json_is_read_as_well() -> None:
    pool = {
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": {"name": "rail0"},
        "spec": {"subnet": "10.1.7.0/16"},
    }
    documents, early = parse_manifests(json.dumps(pool, indent=2).encode(), "pool.json")
    assert [(problem.rule, problem.line) for problem in lint(index_documents(documents), None, early)] == [
        ("host-bits", 8)
    ]


def test_the_order_of_files_changes_nothing() -> None:
    metadata = "{name: a, annotations: {k8s.v1.cni.cncf.io/networks: rail9}}"
    pod = f"apiVersion: v1\nkind: Pod\nmetadata: {metadata}\nspec: {{containers: []}}\n"
    nad = "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: rail0}\n"
    read = [parse_manifests(text.encode(), file)[0] for text, file in ((pod, "pod.yaml"), (nad, "nad.yaml"))]
    first, second = lint(index_documents(read[0] + read[1])), lint(index_documents(read[1] + read[0]))
    assert first == second
    assert [problem.rule for problem in first] == ["network-not-found"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("a: [\n", "bad-yaml", id="torn"),
        pytest.param("[" * 600 + "]" * 600, "too-deep", id="deep"),
        pytest.param(
            "a: &a [1,1,1,1,1,1,1,1,1]\n"
            + "".join(f"{c}: &{c} [{','.join(['*' + p] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)),
            "too-large",
            id="aliases",
        ),
    ],
)
def test_hostile_yaml_is_refused_with_a_place(text: str, code: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_manifests(text.encode(), "bad.yaml")
    assert refused.value.problems[0].code == code
    assert refused.value.problems[0].place is not None


def test_deep_json_in_a_string_is_a_finding() -> None:
    deep = "[" * 3000 + "]" * 3000
    head = "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: a}\n"
    documents, _ = parse_manifests(f"{head}spec: {{config: '{deep}'}}\n".encode(), "nad.yaml")
    (problem,) = lint(index_documents(documents))
    assert problem.rule == "invalid-json"
    assert "levels deep" in problem.message


def test_merge_keys_and_aliases_are_followed() -> None:
    text = """apiVersion: v1
kind: List
items:
  - apiVersion: nv-ipam.nvidia.com/v1alpha1
    kind: IPPool
    metadata: {name: a}
    spec: &spec {subnet: 10.1.0.0/16, perNodeBlockSize: 8}
  - apiVersion: nv-ipam.nvidia.com/v1alpha1
    kind: IPPool
    metadata: {name: b}
    spec: {<<: *spec, subnet: 10.2.0.0/16}
"""
    documents, hits = parse_manifests(text.encode(), "pools.yaml")
    assert documents[1].get_mapping("spec") == {"subnet": "10.2.0.0/16", "perNodeBlockSize": 8}
    assert hits == []


def test_of_a_key_that_stands_twice_the_last_counts_as_in_an_api_server() -> None:
    pool = _POOL.replace("perNodeBlockSize: 8}", "subnet: 10.1.7.0/24, perNodeBlockSize: 8}")
    documents, early = parse_manifests(pool.encode(), "pools.yaml")
    assert [problem.rule for problem in lint(index_documents(documents), None, early)] == ["duplicate-key"]


def test_objects_without_a_line_between_them_are_one_mistake_each() -> None:
    texts = [f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: b, a: c}}\n" for name in "abc"]
    documents, early = parse_manifests("".join(texts).encode(), "maps.yaml")
    problems = lint(index_documents(documents), None, early)
    lines = [(problem.line, problem.message) for problem in problems]
    assert lines == [
        (4, "key 'a' stands twice in one mapping"),
        (5, "key 'apiVersion' stands twice in one mapping: a line --- before it is missing"),
        (9, "key 'apiVersion' stands twice in one mapping: a line --- before it is missing"),
    ]


def test_a_line_is_missing_between_objects_and_not_behind_a_version_alone() -> None:
    _, [breach] = parse_manifests(b"apiVersion: v1\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "map.yaml")
    assert breach.message == "key 'apiVersion' stands twice in one mapping"
