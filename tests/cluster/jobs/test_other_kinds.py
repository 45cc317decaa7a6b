"""Pods with GPUs in kinds beside those that are written, and pods without GPUs beside them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from tests.cluster.jobs.wanteds import PLAIN, WANTED, lost
from trackbed.cluster.jobs.jobs import PatchedJob, inject_into_jobs
from trackbed.cluster.jobs.networks import ANNOTATION
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.template import NotAJobError

GPUS = "resources: {limits: {nvidia.com/gpu: 8}}"
POD = f"{{apiVersion: v1, kind: Pod, spec: {{containers: [{{name: c, {GPUS}}}]}}}}"


def patch(
    text: str, requirements: PodRequirements = PLAIN, pod_specs: tuple[str, ...] = ()
) -> tuple[Any, list[PatchedJob]]:
    """The first object of a text with rails, and notes."""
    objects = list(yaml.safe_load_all(text))
    before = copy.deepcopy(objects)
    jobs = inject_into_jobs(objects, requirements, pod_specs)
    assert lost(before, objects) == []
    again = copy.deepcopy(objects)
    inject_into_jobs(again, requirements, pod_specs)
    assert again == objects
    return objects[0], jobs


def read(manifest: Any, path: str) -> Any:
    for key in path.replace("[", ".").replace("]", "").split("."):
        manifest = manifest[int(key)] if key.isdecimal() else manifest.get(key, {})
    return manifest


def has_rails(manifest: Any, container: str, annotations: str) -> tuple[bool, bool]:
    return "nvidia.com/rail0" in str(read(manifest, container)), ANNOTATION in read(manifest, annotations)


def pod_template(path: str) -> tuple[str, str]:
    """The paths of the container and the annotations of a pod template."""
    return f"{path}.template.spec.containers[0]", f"{path}.template.metadata.annotations"


MPI_RUNTIME = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
spec:
  mlPolicy: {{mpi: {{runLauncherAsNode: {as_node}}}}}
  template:
    spec:
      replicatedJobs:
      - name: launcher
        template:
          metadata: {{labels: {{trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}}
          spec: {{template: {{spec: {{containers: [{{name: node, command: [mpirun, a]}}]}}}}}}
      - name: node
        template: {{spec: {{template: {{spec: {{containers: [{{name: node}}]}}}}}}}}
"""


@pytest.mark.parametrize("as_node", [False, True])
def test_every_node_of_an_mpi_runtime_that_runs_ranks_gets_rails(as_node: bool) -> None:
    runtime, [job] = patch(MPI_RUNTIME.format(as_node=str(as_node).lower()))
    launcher, node = (
        group["template"]["spec"]["template"] for group in runtime["spec"]["template"]["spec"]["replicatedJobs"]
    )
    assert ("nvidia.com/rail0" in str(launcher), "nvidia.com/rail0" in str(node)) == (as_node, True)
    assert launcher["spec"]["containers"][0]["command"][:2] == ["mpirun", "-x"]
    assert {note.role for note in job.notes} == {"launcher", "node"}


SPEC = f"{{containers: [{{name: c, {GPUS}}}]}}"
TEMPLATE = f"template: {{spec: {SPEC}}}"
PLACES = {
    "LLMInferenceService": (
        f"{{template: {SPEC}, prefill: {{worker: {SPEC}}}}}",
        "serving.kserve.io/v1alpha1",
        [
            ("spec.template.containers[0]", "spec.annotations"),
            ("spec.prefill.worker.containers[0]", "spec.prefill.annotations"),
        ],
    ),
    "InferenceService": (
        f"{{predictor: {{model: {{modelFormat: {{name: x}}, {GPUS}}}, workerSpec: {SPEC}}}}}",
        "serving.kserve.io/v1beta1",
        [
            ("spec.predictor.model", "spec.predictor.annotations"),
            ("spec.predictor.workerSpec.containers[0]", "spec.predictor.annotations"),
        ],
    ),
    "Workflow": (
        f"{{templates: [{{name: a, steps: []}}, {{name: b, container: {{image: i, {GPUS}}}}}]}}",
        "argoproj.io/v1alpha1",
        [("spec.templates[1].container", "spec.templates[1].metadata.annotations")],
    ),
    "CronWorkflow": (
        f"{{workflowSpec: {{templates: [{{name: b, script: {{image: i, {GPUS}}}}}]}}}}",
        "argoproj.io/v1alpha1",
        [("spec.workflowSpec.templates[0].script", "spec.workflowSpec.templates[0].metadata.annotations")],
    ),
    "RayService": (
        f"{{rayClusterConfig: {{workerGroupSpecs: [{{groupName: g, {TEMPLATE}}}]}}}}",
        "ray.io/v1",
        [pod_template("spec.rayClusterConfig.workerGroupSpecs[0]")],
    ),
    "MPIJob": (
        f"{{mpiReplicaSpecs: {{Worker: {{{TEMPLATE}}}}}}}",
        "kubeflow.org/v1",
        [pod_template("spec.mpiReplicaSpecs.Worker")],
    ),
    "StormService": (
        f"{{template: {{spec: {{roles: [{{name: prefill, {TEMPLATE}}}]}}}}}}",
        "orchestration.aibrix.ai/v1alpha1",
        [pod_template("spec.template.spec.roles[0]")],
    ),
    "Runtime": (
        f"{{annotations: {{a: b}}, containers: [{{name: p, {GPUS}}}]}}",
        "example.com/v1",
        [("spec.containers[0]", "spec.annotations")],
    ),
}


@pytest.mark.parametrize("kind", PLACES)
def test_pods_get_rails_wherever_their_kind_has_them(kind: str) -> None:
    fields, version, places = PLACES[kind]
    manifest, [job] = patch(f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {fields}\n")
    assert [has_rails(manifest, *place) for place in places] == [(True, True)] * len(places)
    paths = {note.path for note in job.notes if note.code == "network-resource-not-requested"}
    assert paths == {f"{container}.resources.limits" for container, _ in places}


def test_templates_of_other_kinds_without_gpus_stay() -> None:
    operator = "{apiVersion: a.b/v1, kind: X, spec: {template: {spec: {containers: [{name: c}]}}}}"
    manifest, jobs = patch(f"{operator}\n---\n{POD}")
    assert manifest == yaml.safe_load(operator)
    assert [job.title for job in jobs] == ["Pod (without a name)"]


BARE = f"apiVersion: a.b/v1\nkind: X\nspec: {{groups: [{{podSpec: {{containers: [{{name: c, {GPUS}}}]}}}}]}}\n"


def test_a_pod_spec_without_a_place_for_annotations_gets_what_needs_none() -> None:
    manifest, [job] = patch(BARE)
    assert [(note.code, note.path) for note in job.notes] == [
        ("pod-spec-without-annotations", "spec.groups[0].podSpec")
    ]
    assert manifest == yaml.safe_load(BARE)
    manifest, _ = patch(BARE, WANTED["claims"])
    assert manifest["spec"]["groups"][0]["podSpec"]["resourceClaims"]


def test_a_pod_spec_is_found_by_its_path() -> None:
    text = "apiVersion: a.b/v1\nkind: X\nspec: {groups: [{pods: {spec: {containers: [{name: c}]}}}]}\n"
    config = "---\napiVersion: v1\nkind: ConfigMap\n"
    manifest, _ = patch(text + config, pod_specs=("spec.groups[0].pods",))
    assert has_rails(manifest, "spec.groups[0].pods.spec", "spec.groups[0].pods.metadata.annotations") == (True, True)
    bare, _ = patch("containers: [{name: c}]\n", WANTED["claims"], (".",))
    assert bare["resourceClaims"]
    with pytest.raises(NotAJobError, match=r"spec\.pods: no object has a pod template or pod spec there"):
        inject_into_jobs([yaml.safe_load(text)], PLAIN, ("spec.pods",))


UNKNOWN = f"apiVersion: a.b/v1\nkind: Graph\nmetadata: {{name: g}}\nspec: {{services: {{Worker: {{{GPUS}}}}}}}\n"


def test_gpus_where_no_pod_spec_is_known_are_reported_beside_jobs_and_alone() -> None:
    manifest, jobs = patch(f"{UNKNOWN}---\n{POD}")
    assert manifest == yaml.safe_load(UNKNOWN)
    assert (jobs[0].title, [note.code for note in jobs[0].notes]) == ("Graph g", ["pod-of-unknown-kind"])
    with pytest.raises(NotAJobError, match=r"Graph g: spec\.services\.Worker\.resources: .* asks for nvidia.com/gpu"):
        patch(UNKNOWN)


FIRST = "template: {spec: {containers: [{name: c, resources: RESOURCES}]}}"
GROUPS = {
    "LeaderWorkerSet": (
        "leaderworkerset.x-k8s.io/v1",
        f"{{leaderWorkerTemplate: {{leaderT{FIRST[1:]}, workerT{TEMPLATE[1:]}}}}}",
        ("spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"),
    ),
    "PyTorchJob": (
        "kubeflow.org/v1",
        f"{{pytorchReplicaSpecs: {{Master: {{{FIRST}}}, Worker: {{{TEMPLATE}}}}}}}",
        ("spec.pytorchReplicaSpecs.Master", "spec.pytorchReplicaSpecs.Worker"),
    ),
    "RayCluster": (
        "ray.io/v1",
        f"{{workerGroupSpecs: [{{{FIRST}}}, {{{TEMPLATE}}}]}}",
        ("spec.workerGroupSpecs[0]", "spec.workerGroupSpecs[1]"),
    ),
}


@pytest.mark.parametrize("gpus", [False, True])
@pytest.mark.parametrize("kind", GROUPS)
def test_pods_without_gpus_beside_pods_with_gpus_get_no_rails(kind: str, gpus: bool) -> None:
    version, spec, roles = GROUPS[kind]
    fields = spec.replace("RESOURCES", "{limits: {nvidia.com/gpu: 8}}" if gpus else "{}")
    manifest, _ = patch(f"apiVersion: {version}\nkind: {kind}\nspec: {fields}\n")
    assert ["nvidia.com/rail0" in str(read(manifest, role)) for role in roles] == [gpus, True]


def test_a_deployment_without_gpus_beside_a_job_with_gpus_gets_no_rails() -> None:
    web = "apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: [{name: web}]}}}\n"
    manifest, jobs = patch(f"{web}---\n{POD}")
    assert manifest == yaml.safe_load(web)
    assert [len(job.notes) > 0 for job in jobs] == [False, True]
    alone, _ = patch(web)
    assert alone != manifest


def test_a_pod_with_host_network_gets_nothing_and_is_reported() -> None:
    pod = yaml.safe_load(POD)
    pod["spec"]["hostNetwork"] = True
    before = copy.deepcopy(pod)
    [job] = inject_into_jobs([pod], PLAIN)
    assert [(note.code, note.path) for note in job.notes] == [("host-network-with-networks", "spec.hostNetwork")]
    assert pod == before


def definition(spec: str) -> str:
    """A CRD of Fleets, whose spec has these properties."""
    schema = f"{{type: object, properties: {{spec: {{type: object, properties: {spec}}}}}}}"
    version = f"{{name: v1, served: true, schema: {{openAPIV3Schema: {schema}}}}}"
    names = "names: {kind: Fleet, plural: fleets}"
    return (
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: fleets.a.b}\n"
        f"spec: {{group: a.b, {names}, versions: [{version}]}}\n---\n"
    )


CONTAINER = "{type: object, properties: {name: {type: string}, image: {type: string}, resources: {type: object}}}"
PODS = f"{{type: object, properties: {{containers: {{type: array, items: {CONTAINER}}}}}}}"
TEXTS = "{type: object, additionalProperties: {type: string}}"
BY_SCHEMA = {
    "a template": (
        f"{{crew: {{type: object, properties: {{metadata: {{type: object}}, spec: {PODS}}}}}}}",
        f"{{crew: {{spec: {SPEC}}}}}",
        ("spec.crew.spec.containers[0]", "spec.crew.metadata.annotations"),
    ),
    "templates by name": (
        f"{{crews: {{type: object, additionalProperties: {{properties: {{metadata: {{}}, spec: {PODS}}}}}}}}}",
        f"{{crews: {{a: {{spec: {SPEC}}}}}}}",
        ("spec.crews.a.spec.containers[0]", "spec.crews.a.metadata.annotations"),
    ),
    "a pod spec with annotations beside it": (
        f"{{crews: {{type: array, items: {{properties: {{annotations: {TEXTS}, pods: {PODS}}}}}}}}}",
        f"{{crews: [{{pods: {SPEC}}}]}}",
        ("spec.crews[0].pods.containers[0]", "spec.crews[0].annotations"),
    ),
    "containers without a name": (
        f"{{pods: {PODS}, annotations: {TEXTS}}}",
        f"{{pods: {{containers: [{{{GPUS}}}]}}}}",
        ("spec.pods.containers[0]", "spec.annotations"),
    ),
}
"""Where pods are -> the properties of the CRD's spec, the spec of an object, paths of the container and annotations."""


@pytest.mark.parametrize("name", BY_SCHEMA)
def test_pods_get_rails_where_the_schema_of_their_crd_has_them(name: str) -> None:
    properties, fields, place = BY_SCHEMA[name]
    text = definition(properties) + f"apiVersion: a.b/v1\nkind: Fleet\nmetadata: {{name: a}}\nspec: {fields}\n"
    objects = list(yaml.safe_load_all(text))
    inject_into_jobs(objects, PLAIN)
    assert has_rails(objects[1], *place) == (True, True)
    again = copy.deepcopy(objects)
    inject_into_jobs(again, PLAIN)
    assert again == objects


def test_what_looks_like_a_pod_and_is_none_by_its_schema_stays() -> None:
    shape = f"{{sample: {{type: object}}, pods: {PODS}, annotations: {TEXTS}}}"
    text = definition(shape) + f"{{apiVersion: a.b/v1, kind: Fleet, spec: {{sample: {SPEC}, pods: {SPEC}}}}}\n"
    objects = list(yaml.safe_load_all(text))
    inject_into_jobs(objects, PLAIN)
    assert "rail0" not in str(objects[1]["spec"]["sample"])
    assert "nvidia.com/rail0" in str(objects[1]["spec"]["pods"])


@pytest.mark.parametrize("versions", ["3", "{a: 1}", "[1]", "[{schema: {openAPIV3Schema: [1]}}]", "~"])
def test_a_crd_that_is_none_changes_nothing(versions: str) -> None:
    crd = f"{{kind: CustomResourceDefinition, spec: {{versions: {versions}}}}}"
    _, jobs = patch(f"{POD}\n---\n{crd}\n")
    assert [job.title for job in jobs] == ["Pod (without a name)"]
