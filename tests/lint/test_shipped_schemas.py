"""The shipped schemas: versions that Kubernetes removed, files for older ones, and fields one letter off."""

from __future__ import annotations

import pytest

from trackbed.lint.corpus import index_documents
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint
from trackbed.lint.schemas.crds import index_crds

ROLE = "apiVersion: rbac.authorization.k8s.io/v1beta1\nkind: Role\nmetadata: {name: a}\n"
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec: {replicas: one, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: a}]}}}
"""


def find(text: str, file: str = "a.yaml") -> list[tuple[str, str, str]]:
    documents, early = parse_manifests(text.encode(), file)
    problems = lint(index_documents(documents), index_crds(), early)
    return [(problem.severity, problem.rule, problem.message) for problem in problems]


@pytest.mark.parametrize(
    ("version", "kind", "message"),
    [
        (
            "rbac.authorization.k8s.io/v1beta1",
            "Role",
            "Role has no version 'v1beta1': Kubernetes 1.22 removed it; write rbac.authorization.k8s.io/v1",
        ),
        (
            "policy/v1beta1",
            "PodSecurityPolicy",
            "policy has no kind 'PodSecurityPolicy': Kubernetes 1.25 removed it",
        ),
        (
            "extensions/v1beta1",
            "Ingress",
            "extensions has no kind 'Ingress' any more: Kubernetes 1.22 removed it",
        ),
        ("extensions/v1beta1", "Ingres", "extensions has no kind 'Ingres' any more"),
        ("apps/v1beta2", "Deploymint", "apps has no kind 'Deploymint'; did you mean 'Deployment'?"),
        (
            "scheduling.k8s.io/v1alpha1",
            "PriorityClass",
            "PriorityClass has no version 'v1alpha1'; write scheduling.k8s.io/v1",
        ),
    ],
)
def test_the_release_that_removed_a_version_is_told(version: str, kind: str, message: str) -> None:
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n"
    assert find(text) == [("error", "unknown-kind", message)]


@pytest.mark.parametrize(
    ("file", "severity"),
    [
        ("multus-daemonset-pre-1.16.yml", "note"),
        ("deploy/kubernetes-1.21/role.yaml", "note"),
        ("deploy/k8s-v1.22/role.yaml", "note"),
        ("deploy/kubernetes-1.23/role.yaml", "error"),
        ("deploy/kubernetes-1.21/for-k8s-1.30.yaml", "error"),
        ("conf/1.8/role.yaml", "note"),
        ("v1.21.x/role.yaml", "note"),
        ("v1.23/role.yaml", "error"),
        ("istio-1.18/role.yaml", "error"),
        ("kube-1.5.7/role.yaml", "error"),
        ("role.yaml", "error"),
    ],
)
def test_a_file_that_is_for_an_older_release_by_its_path_is_no_error(file: str, severity: str) -> None:
    assert [problem[:2] for problem in find(ROLE, file)] == [(severity, "unknown-kind")]


@pytest.mark.parametrize(
    ("file", "severity"),
    [
        ("policies/tests/fixtures/a.yaml", "note"),
        ("pkg/testdata/a.yaml", "note"),
        ("generator/testData/templates/a.yaml", "note"),
        ("tests/e2e/scaling/01-assert.yaml", "note"),
        ("fixtures.yaml", "error"),
        ("assert.yaml", "error"),
    ],
)
def test_an_object_that_is_input_of_tests_may_be_incomplete(file: str, severity: str) -> None:
    assert {problem[:2] for problem in find(DEPLOYMENT, file)} == {
        (severity, "missing-field"),
        (severity, "wrong-type"),
    }


def test_two_objects_in_one_document_are_not_held_against_a_schema() -> None:
    texts = [f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: a}}\n" for kind in ("Namespace", "ConfigMap")]
    assert [problem[1] for problem in find("".join(texts) + "data: {a: b}\n")] == ["duplicate-key"]
    assert find("---\n".join(texts) + "data: {a: b}\n") == []


KUBEADM = "apiVersion: kubeadm.k8s.io/v1beta2\nkind: ClusterConfiguration\nkubernetesVersion: {}\n---\n"
KIND = "apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\nnodes: [{{role: worker, image: '{}'}}]\n---\n"


@pytest.mark.parametrize(
    ("configurations", "severity"),
    [
        ([KUBEADM.format("v1.19.3")], "note"),
        ([KUBEADM.format("1.21.0")], "note"),
        ([KUBEADM.format("v1.22.0")], "error"),
        ([KUBEADM.format("stable")], "error"),
        ([KUBEADM.format("")], "error"),
        ([KIND.format("kindest/node:v1.21.14@sha256:0123")], "note"),
        ([KIND.format("kindest/node:v1.31.0")], "error"),
        ([KUBEADM.format("v1.19.3"), KIND.format("kindest/node:v1.31.0")], "error"),
        (["apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {name: a}\n---\n"], "error"),
    ],
)
def test_a_version_that_the_named_release_serves_is_no_error(configurations: list[str], severity: str) -> None:
    problems = find("".join(configurations) + ROLE)
    assert [problem[0] for problem in problems if problem[1] == "unknown-kind"] == [severity]


def test_all_that_is_wrong_is_a_note_in_input_of_tests() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {common: false}}\n"
    assert [problem[:2] for problem in find(text, "testdata/a.yaml")] == [("note", "text-expected")]
    assert [problem[:2] for problem in find(text)] == [("error", "text-expected")]
    pool = "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata: {name: a}\n"
    pool += "spec: {subnet: 10.1.7.0/16, ips: [10.1.7.1]}\n"
    assert [problem[:2] for problem in find(pool, "fixtures/a.yaml")] == [("note", "host-bits")]


def test_equal_objects_are_noted_and_others_are_warned_of() -> None:
    texts = [f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{a: {value}}}\n---\n" for value in "bbc"]
    assert [problem[:2] for problem in find("".join(texts))] == [
        ("note", "duplicate-object"),
        ("warning", "duplicate-object"),
    ]


def test_a_secret_in_lines_as_kustomize_writes_them_is_base64() -> None:
    text = "apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\ndata:\n  a: |\n    {}\n    {}\n"
    assert find(text.format("A" * 70, "AAAA==")) == []
    assert [problem[1] for problem in find(text.format("A" * 70, "AAA=="))] == ["bad-value"]


def test_patches_of_one_object_are_no_duplicates() -> None:
    patch = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: a}}\nspec: {{template: {{spec: {}}}}}\n"
    texts = [patch.format(f"{{containers: [{{name: {name}, env: []}}]}}") for name in "ab"]
    assert {problem[1] for problem in find("---\n".join(texts))} == {"partial-object"}


@pytest.mark.parametrize(("file", "rules"), [("pod.yaml", ["image-missing"]), ("cpu-pod-template.yaml", [])])
def test_a_pod_template_of_a_program_needs_no_image(file: str, rules: list[str]) -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a}]}\n"
    assert [problem[1] for problem in find(text, file)] == rules


@pytest.mark.parametrize(
    ("head", "spec", "rules"),
    [
        ("nvidia.com/v1\nkind: ClusterPolicy", "{mig: {strategy: mixed}}", {"partial-object"}),
        ("nvidia.com/v1\nkind: ClusterPolicy", "{operator: {}, driver: {}, toolkit: {}}", {"missing-field"}),
        ("autoscaling/v2\nkind: HorizontalPodAutoscaler", "{maxReplicas: 2}", {"partial-object"}),
        ("autoscaling/v2\nkind: HorizontalPodAutoscaler", "{scaleTargetRef: {name: a}}", {"missing-field"}),
    ],
)
def test_an_object_without_what_it_is_about_is_a_patch(head: str, spec: str, rules: set[str]) -> None:
    problems = find(f"apiVersion: {head}\nmetadata: {{name: a}}\nspec: {spec}\n")
    assert {problem[1] for problem in problems} == rules


def test_states_of_an_object_that_a_server_returned_are_no_duplicates() -> None:
    metadata = [f"{{name: a, resourceVersion: '{number}', uid: u}}" for number in range(3)]
    assert find("".join(f"apiVersion: v1\nkind: ConfigMap\nmetadata: {text}\n---\n" for text in metadata)) == []


def test_an_advice_holds_for_input_of_tests_too() -> None:
    container = (
        "{name: a, image: a, env: [{name: NCCL_IB_HCA, value: mlx5_1}], resources: {limits: {nvidia.com/gpu: 8}}}"
    )
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {{containers: [{container}]}}\n"
    assert find(text, "testdata/a.yaml") == find(text)
    assert ("warning", "hca-prefix") in [problem[:2] for problem in find(text)]


def test_a_field_that_is_one_letter_off_is_told_before_one_of_this_name_elsewhere() -> None:
    drain = "{driver: {enabled: true, upgradePolicy: {drain: {enabled: true}}}}"
    text = f"apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {{name: a}}\nspec: {drain}\n"
    hint = "unknown field spec.driver.upgradePolicy.drain.enabled; did you mean 'enable'?"
    assert ("error", "unknown-field", hint) in find(text)
