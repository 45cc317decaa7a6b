"""Files that Kustomize completes are not blamed for what they lack, and alternatives not for each other."""

from __future__ import annotations

import pytest

from trackbed.lint.corpus import index_documents
from trackbed.lint.kustomize import read_builds
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint
from trackbed.lint.schemas.crds import index_crds

POLICY = """\
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetworkNodePolicy
metadata: {{name: {}, namespace: sriov-network-operator}}
spec: {{resourceName: {}, numVfs: 4, nodeSelector: {}, nicSelector: {{pfNames: [ens1f0], vendor: "15b3"}}}}
"""
PATCH = """\
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetworkNodePolicy
metadata: {name: a, namespace: sriov-network-operator}
spec: {nodeSelector: {rails: "8"}, priority: high}
"""


def kustomization(**fields: list[str]) -> str:
    lines = "".join(f"{name}: [{', '.join(values)}]\n" for name, values in fields.items())
    return f"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n{lines}"


def list_rules(files: dict[str, str]) -> list[tuple[str, str]]:
    """Return the file and rule of each problem."""
    parsed = [parse_manifests(text.encode(), file) for file, text in files.items()]
    problems = lint(index_documents([doc for docs, _ in parsed for doc in docs]), index_crds([]))
    return [(problem.file, problem.rule) for problem in problems]


FIELDS = [
    pytest.param({"resources": ["../base"], "patchesStrategicMerge": ["p.yaml"]}, id="merge"),
    pytest.param({"bases": ["../base/"], "patches": ["{path: p.yaml}"]}, id="patches of earlier versions"),
    pytest.param({"resources": ["./../base"], "patchesJson6902": ["{path: ./p.yaml}"]}, id="with a dot"),
]


@pytest.mark.parametrize(("fields", "severity"), [({}, "error"), ({"patches": ["{path: a.yaml}"]}, "note")])
def test_the_name_in_a_patch_may_be_a_number(fields: dict[str, list[str]], severity: str) -> None:
    files = {
        "a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 0}\n",
        "kustomization.yaml": kustomization(**fields),
    }
    parsed = [parse_manifests(text.encode(), file) for file, text in files.items()]
    problems = lint(index_documents([doc for docs, _ in parsed for doc in docs]), index_crds())
    assert [(problem.rule, problem.severity) for problem in problems] == [("wrong-type", severity)]


def test_a_kustomization_need_not_say_that_it_is_one() -> None:
    files = {
        "base/a.yaml": POLICY.format("a", "rail0", "~"),
        "base/kustomization.yml": "resources: [a.yaml]\n",
        "site/kustomization.yaml": "resources: [../base]\n",
    }
    assert list_rules(files) == [("base/a.yaml", "partial-object")]


@pytest.mark.parametrize("fields", FIELDS)
def test_what_a_patch_and_its_base_lack_is_one_note_each_and_what_is_wrong_is_told(
    fields: dict[str, list[str]],
) -> None:
    files = {
        "base/a.yaml": POLICY.format("a", "rail0", "~"),
        "base/kustomization.yaml": kustomization(resources=["a.yaml"]),
        "site/kustomization.yaml": kustomization(**fields),
        "site/p.yaml": PATCH,
    }
    assert list_rules(files) == [
        ("base/a.yaml", "partial-object"),
        ("site/p.yaml", "partial-object"),
        ("site/p.yaml", "wrong-type"),
    ]


DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec: {template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: a}]}}}
"""


@pytest.mark.parametrize(
    ("labels", "rule"),
    [
        ("commonLabels: {app: a}", "partial-object"),
        ("labels: [{includeSelectors: true, pairs: {app: a}}]", "partial-object"),
        ("labels: [{pairs: {app: a}}]", "missing-field"),
    ],
)
def test_a_selector_that_labels_of_a_kustomization_make_need_not_be_there(labels: str, rule: str) -> None:
    files = {"a/kustomization.yaml": kustomization(resources=["a.yaml"]) + labels + "\n", "a/a.yaml": DEPLOYMENT}
    assert ("a/a.yaml", rule) in list_rules(files)
    assert ("a/a.yaml", "missing-field") in list_rules({"a/a.yaml": DEPLOYMENT})


def test_a_file_that_no_overlay_completes_has_to_be_whole() -> None:
    files = {"a/a.yaml": POLICY.format("a", "rail0", "~"), "a/kustomization.yaml": kustomization(resources=["a.yaml"])}
    assert list_rules(files) == [("a/a.yaml", "wrong-type")]


def test_folders_that_are_never_built_together_are_alternatives() -> None:
    bases = {f"{name}/p.yaml": POLICY.format(name, name, "{rails: '8'}") for name in ("small", "large")}
    lists = {f"{name}/kustomization.yaml": kustomization(resources=["p.yaml"]) for name in ("small", "large")}
    sites = {f"{name}-site/kustomization.yaml": kustomization(resources=[f"../{name}"]) for name in ("small", "large")}
    both = {"both/kustomization.yaml": kustomization(resources=["../small", "../large"])}
    assert list_rules({**bases, **lists, **sites}) == []
    assert "vf-ranges-overlap" in {rule for _, rule in list_rules({**bases, **lists, **sites, **both})}
    assert "vf-ranges-overlap" in {rule for _, rule in list_rules(bases)}


@pytest.mark.parametrize(
    ("folders", "extra", "severity"),
    [
        pytest.param(("a", "a"), {}, "error", id="one folder"),
        pytest.param(("a", "b"), {}, "note", id="two folders"),
        pytest.param(
            ("a", "b"),
            {"kustomization.yaml": kustomization(resources=["a/one.yaml", "b/two.yaml"])},
            "error",
            id="built together",
        ),
    ],
)
def test_what_is_not_applied_together_for_certain_contradicts_in_a_note(
    folders: tuple[str, str], extra: dict[str, str], severity: str
) -> None:
    first, second = (POLICY.format(name, name, "{rails: '8'}") for name in ("one", "two"))
    files = {f"{folders[0]}/one.yaml": first, f"{folders[1]}/two.yaml": second, **extra}
    parsed = [parse_manifests(text.encode(), file) for file, text in files.items()]
    problems = lint(index_documents([doc for docs, _ in parsed for doc in docs]))
    [problem] = [problem for problem in problems if problem.rule == "vf-ranges-overlap"]
    assert problem.severity == severity
    assert ("if a/one.yaml:1 is applied as well" in problem.message) == (severity == "note")


def test_of_several_contradictions_the_gravest_is_told() -> None:
    names = ("a/one.yaml", "b/two.yaml", "b/three.yaml")
    files = {name: POLICY.format(name[2:-5], "rail0", "{rails: '8'}") for name in names}
    parsed = [parse_manifests(text.encode(), file) for file, text in files.items()]
    problems = lint(index_documents([doc for docs, _ in parsed for doc in docs]))
    overlaps = {problem.file: problem.severity for problem in problems if problem.rule == "vf-ranges-overlap"}
    assert overlaps == {"b/two.yaml": "note", "b/three.yaml": "error"}


def test_a_long_chain_of_folders_is_walked_once() -> None:
    chain = {f"{number}/kustomization.yaml": f"resources: [../{number + 1}, p.yaml]\n" for number in range(2000)}
    parsed = [parse_manifests(text.encode(), file) for file, text in chain.items()]
    builds = read_builds([doc for docs, _ in parsed for doc in docs])
    assert builds.roots["1999/p.yaml"] == {"0"}
    assert "0/p.yaml" not in builds.unfinished


def test_folders_that_name_each_other_end() -> None:
    circle = {f"{name}/kustomization.yaml": kustomization(resources=[f"../{other}"]) for name, other in ("ab", "ba")}
    assert list_rules(circle) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("off", "note"),
        ("Yes # as in YAML 1.2", "note"),
        ("false", "error"),
        ("7", "error"),
    ],
)
def test_kustomize_reads_a_boolean_of_yaml_1_1_as_a_text(value: str, expected: str) -> None:
    text = (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels:\n    b: {value}\ndata:\n  dedup: {value}\n"
    )
    for kustomization_, severity in (("", "error"), (kustomization(resources=["a.yaml"]), expected)):
        files = {"a.yaml": text, "kustomization.yaml": kustomization_}
        documents = [doc for file, content in files.items() for doc in parse_manifests(content.encode(), file)[0]]
        problems = lint(index_documents(documents), index_crds([]))
        assert {(problem.rule, problem.severity) for problem in problems if problem.file == "a.yaml"} == {
            ("text-expected", severity),
            ("wrong-type", severity),
        }
