"""What a strict API server refuses, in words."""

import json
from importlib.resources import files

import pytest

from trackbed.lint.corpus import index_documents
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint
from trackbed.lint.schemas.crds import index_crds

_CRDS = index_crds([("rail.yaml", files("trackbed.lint").joinpath("schemas", "example.yaml").read_bytes())])


def _messages(spec: str, version: str = "v1", kind: str = "Rail", extra: str = "") -> list[str]:
    text = f"apiVersion: example.org/{version}\nkind: {kind}\nmetadata: {{name: a}}\n{extra}spec: {spec}\n"
    documents, early = parse_manifests(text.encode(), "rail.yaml")
    return [f"{problem.rule}: {problem.message}" for problem in lint(index_documents(documents), _CRDS, early)]


def _rules(text: str) -> list[str]:
    documents, early = parse_manifests(text.encode(), "a.yaml")
    return [problem.rule for problem in lint(index_documents(documents), index_crds(), early)]


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
            ["template: values such as this one are filled in later, so they were not checked; render the file first"],
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


def test_an_older_release_of_another_project_may_serve_another_version() -> None:
    text = b"apiVersion: kubeflow.org/v1alpha2\nkind: MPIJob\nmetadata: {name: a}\nspec: {}\n"
    documents, early = parse_manifests(text, "a.yaml")
    (problem,) = lint(index_documents(documents), index_crds(), early)
    assert (problem.rule, problem.severity) == ("unknown-kind", "warning")
    assert "in the release that lint knows; write kubeflow.org/v2beta1, or give the CRDs of yours" in problem.message


@pytest.mark.parametrize("field", ["podSpecOverrides", "podTemplateOverrides", "runtimePatches"])
def test_a_train_job_may_be_of_any_release_of_the_trainer(field: str) -> None:
    spec = f"{{runtimeRef: {{name: torch}}, trainer: {{numProcPerNode: auto}}, {field}: []}}"
    assert (
        _rules(f"apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {{name: a}}\nspec: {spec}\n")
        == []
    )


@pytest.mark.parametrize("versions", ["version: v1alpha2", "versions: [{name: v1alpha2, served: true, storage: true}]"])
def test_a_version_that_a_crd_beside_it_defines_is_right(versions: str) -> None:
    spec = f"{{group: kubeflow.org, names: {{kind: MPIJob, plural: mpijobs}}, scope: Namespaced, {versions}}}"
    text = (
        "apiVersion: kubeflow.org/v1alpha2\nkind: MPIJob\nmetadata: {name: a}\nspec: {}\n---\napiVersion: "
        f"apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: a}}\nspec: {spec}\n"
    )
    documents, early = parse_manifests(text.encode(), "a.yaml")
    problems = lint(index_documents(documents), index_crds(), early)
    assert "a CRD of the input defines MPIJob of kubeflow.org/v1alpha2" in problems[0].message
    assert (problems[0].rule, problems[0].severity) == ("no-schema", "note")


@pytest.mark.parametrize(
    ("kind", "expected"), [("kind:", ["missing-field"]), ("kind: ''", ["missing-field"]), ("", ["not-a-manifest"])]
)
def test_an_object_whose_kind_is_empty_is_an_error(kind: str, expected: list[str]) -> None:
    assert _rules(f"apiVersion: sriovnetwork.openshift.io/v1\n{kind}\nmetadata: {{name: a}}\n") == expected


def test_an_object_for_functions_is_not_held_against_the_api_server() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m%s}\ndata: {create: true}\n"
    assert _rules(text % "") == ["wrong-type"]
    assert _rules(text % ", annotations: {config.kubernetes.io/local-config: 'true'}") == []


def test_a_kind_without_a_schema_is_a_note() -> None:
    assert _messages("{}", kind="Rails") == [
        "no-schema: no schema of Rails in example.org is known, so its fields were not checked; did you mean 'Rail'?"
    ]


def test_a_kind_that_kubernetes_does_not_have_is_refused() -> None:
    assert _rules("{apiVersion: policy/v1beta1, kind: PodSecurityPolicy}") == ["unknown-kind"]
    assert _rules("{apiVersion: batch/v1beta1, kind: CronJob}") == ["unknown-kind"]


def test_the_status_is_left_alone() -> None:
    assert _messages("{resource: {name: a}}", extra="status: {anything: [1]}\n") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("spec: {containers: [{name: a, image: b, resource: {}}]}", ["unknown-field"], id="typo"),
        pytest.param("spec: {containers: [{image: a}]}", ["missing-field"], id="no-name"),
        pytest.param("spec: {containers: [{name: a, image: b, tty: 'yes'}]}", ["wrong-type"], id="boolean"),
        pytest.param(
            "spec: {containers: [{name: a, image: b, ports: [{containerPort: 80.5}]}]}", ["wrong-type"], id="integer"
        ),
        pytest.param(
            "spec: {containers: [{name: a, image: b, resources: {limits: {cpu: 1, memory: 0.5}}}]}", [], id="quantity"
        ),
        pytest.param("spec: {containers: [{name: a, image: b, env: ~}], nodeName: ~}", [], id="null"),
        pytest.param("spec: {containers: [{name: a, image: b}]}\nstatus: {phase: 1}", [], id="status"),
    ],
)
def test_objects_of_kubernetes_are_checked_without_any_file(text: str, expected: list[str]) -> None:
    assert _rules(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p, labels: {{a: b}}}}\n{text}\n") == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("{replicas: 2}", ["partial-object"]),
        ("{template: {spec: {containers: [{name: a, ports: []}]}}}", ["partial-object"]),
        ("{template: {spec: {containers: [{name: a, image: a}, {name: b, args: []}]}}}", ["partial-object"]),
        ("{template: {spec: {containers: [{name: a, image: a}]}}}", ["missing-field"]),
        ("{replica: 2}", ["partial-object", "unknown-field"]),
    ],
)
def test_a_patch_of_a_workload_needs_no_required_fields(spec: str, expected: list[str]) -> None:
    assert _rules(f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a}}\nspec: {spec}\n") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("apiVersion: kubeflow.org/v1\nkind: MPIJob\nmetadata: {name: a}\nspec: {}\n", ["no-schema"]),
        ("apiVersion: kubeflow.org/v3\nkind: MPIJob\nmetadata: {name: a}\nspec: {}\n", ["unknown-kind"]),
        ("apiVersion: v1\nkind: PatchTransformer\nmetadata: {name: a}\n", ["no-schema"]),
        ("apiVersion: v1\nkind: Template\nmetadata: {name: a}\n", ["no-schema"]),
        ("apiVersion: v1alpha1\nkind: AgentConfig\nmetadata: {name: a}\n", ["no-schema"]),
        ("apiVersion: v1\nkind: lte\npolicy: {id: 5}\n", ["no-schema"]),
        ("apiVersion: v1\nkind: Pot\nmetadata: {name: a}\n", ["unknown-kind"]),
    ],
)
def test_versions_and_kinds_of_other_programs_are_no_mistake(text: str, expected: list[str]) -> None:
    assert _rules(text) == expected


def test_a_job_without_images_and_restart_policy_is_a_patch() -> None:
    job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: a"
    assert _rules(f"{job}, tty: true}}]}}}}}}\n") == []
    assert _rules(f"{job}, tty: true}}], restartPolicy: Never}}}}}}\n") == ["image-missing"]


def test_a_template_needs_no_required_fields() -> None:
    text = "apiVersion: sriovnetwork.openshift.io/v1\nkind: SriovNetwork\nmetadata: {name: $name}\nspec: "
    assert _rules(f"{text}{{vlan: 7}}\n") == ["partial-object"]
    assert _rules(text.replace("name: $name", "namespace: a") + "{resourceName: a, vlan: '', trust: ''}\n") == [
        "template"
    ]
    assert "missing-field" in _rules(text.replace("$name", "a") + "{vlan: 7}\n")


def test_a_field_that_a_webhook_fills_in_is_not_missing() -> None:
    rules = "failurePolicy: {rules: [{action: FailJobSet}]}"
    assert _rules(f"{{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, spec: {{{rules}}}}}") == []


def test_a_pattern_of_go_that_does_not_compile_is_not_checked() -> None:
    group = "{name: g, rules: [], partial_response_strategy: abort}"
    text = "{apiVersion: monitoring.coreos.com/v1, kind: PrometheusRule, metadata: {name: a}, spec: {groups: [%s]}}"
    assert _rules(text % group) == []


def test_a_crd_replaces_the_shipped_schema_also_as_json() -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"ours": {"type": "string"}}}}}
    version = {"name": "v1alpha1", "served": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "CIDRPool", "plural": "cidrpools"}
    spec = {"group": "nv-ipam.nvidia.com", "names": names, "scope": "Namespaced", "versions": [version]}
    crd = {"kind": "CustomResourceDefinition", "metadata": {"name": "a"}, "spec": spec}
    schemas = index_crds([("a", json.dumps(crd).encode())])
    text = b"{apiVersion: nv-ipam.nvidia.com/v1alpha1, kind: CIDRPool, metadata: {name: a}, spec: {ours: a, cidr: 1}}"
    documents, early = parse_manifests(text, "a.yaml")
    problems = lint(index_documents(documents), schemas, early)
    assert [problem.message for problem in problems] == ["unknown field spec.cidr"]


def test_the_shipped_schemas_are_small() -> None:
    assert len(files("trackbed.lint").joinpath("schemas", "shipped.zip").read_bytes()) < 200_000


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("64GB", "a quantity, such as 2, 500m or 64Gi"),
        ("ten", "a quantity, such as 2, 500m or 64Gi"),
        ("64Gi", None),
        ("1e3", None),
    ],
)
def test_a_quantity_that_cannot_be_read_is_refused_in_words(value: str, expected: str | None) -> None:
    container = f"{{name: a, image: b, resources: {{limits: {{memory: {value}}}}}}}"
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{container}]}}\n"
    documents, early = parse_manifests(text.encode(), "a.yaml")
    problems = [problem.message for problem in lint(index_documents(documents), index_crds(), early)]
    field = f"spec.containers[0].resources.limits.memory is {value!r}"
    assert problems == ([f"{field}, it must be {expected}"] if expected else [])


def test_what_a_test_expects_is_named_alone() -> None:
    head = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.example.org}\n"
    assert _rules(head) == ["partial-object"]
    assert _rules(f"{head}status: {{storedVersions: [v1]}}\n") == ["partial-object"]
    assert "missing-field" in _rules(f"{head}spec: {{group: example.org}}\n")


def _find_unknown_field(spec: str) -> str:
    """Return the message about the one unknown field of a pod."""
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {spec}\n"
    documents, early = parse_manifests(text.encode(), "a.yaml")
    problems = lint(index_documents(documents), index_crds(), early)
    [message] = [problem.message for problem in problems if problem.rule == "unknown-field"]
    return message


@pytest.mark.parametrize("value", ["{}", ""])
def test_a_field_belongs_below_what_is_there(value: str) -> None:
    volume = f"{{name: v, downwardAPI: {value}, items: [{{path: a}}]}}"
    message = _find_unknown_field(f"{{containers: [{{name: a, image: a}}], volumes: [{volume}]}}")
    assert message.endswith("it belongs at spec.volumes[0].downwardAPI.items")


def test_a_field_of_a_pods_security_context_does_not_belong_in_a_containers() -> None:
    message = _find_unknown_field("{containers: [{name: a, image: a, securityContext: {fsGroup: 1}}]}")
    assert message.endswith("it belongs at spec.securityContext.fsGroup")
