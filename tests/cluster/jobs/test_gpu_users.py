"""Which pods of a job use GPUs, where the Fabric names their resource, where they ask for 0, and in MPI runtimes."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
import yaml

from tests.cluster.jobs.wanteds import PLAIN
from trackbed.cluster.jobs.jobs import compare_jobs, inject_into_jobs
from trackbed.cluster.jobs.kinds import KINDS
from trackbed.cluster.jobs.kinds.queued import prefer_topology

NAMED = msgspec.structs.replace(PLAIN, gpu_resource="nvidia.com/h200")
GPUS = "{limits: {nvidia.com/gpu: 8}}"


def spec(resources: str) -> str:
    """A pod template of one container with these resources."""
    return f"{{spec: {{containers: [{{name: c, image: i, resources: {resources}}}]}}}}"


KIND_FIELDS = {
    "RayCluster": (
        "ray.io/v1",
        "{headGroupSpec: {template: USERS}, workerGroupSpecs: [{template: IDLE}, {template: USERS}]}",
        [True, False, True],
    ),
    "PyTorchJob": (
        "kubeflow.org/v1",
        "{pytorchReplicaSpecs: {Master: {template: IDLE}, Worker: {template: USERS}}}",
        [False, True],
    ),
    "LeaderWorkerSet": (
        "leaderworkerset.x-k8s.io/v1",
        "{leaderWorkerTemplate: {leaderTemplate: IDLE, workerTemplate: USERS}}",
        [False, True],
    ),
    "JobSet": (
        "jobset.x-k8s.io/v1alpha2",
        "{replicatedJobs: [{template: {spec: {template: IDLE}}}, {template: {spec: {template: USERS}}}]}",
        [False, True],
    ),
    "Workflow": (
        "argoproj.io/v1alpha1",
        "{templates: [{container: {image: i, resources: NONE}}, {container: {image: i, resources: GPUS}}]}",
        [False, True],
    ),
    "TFJob": (
        "kubeflow.org/v1",
        "{tfReplicaSpecs: {PS: {template: IDLE}, Worker: {template: USERS}}}",
        [False, True],
    ),
}
"""Kind -> its version, its spec, and which of its containers have rails."""


def build(kind: str, gpus: str, others: str = "{}") -> dict[str, Any]:
    """A job of a kind with pods that use GPUs, and others."""
    version, fields, _ = KIND_FIELDS[kind]
    for word, text in {"USERS": spec(gpus), "IDLE": spec(others), "GPUS": gpus, "NONE": others}.items():
        fields = fields.replace(word, text)
    job: dict[str, Any] = yaml.safe_load(f"{{apiVersion: {version}, kind: {kind}, spec: {fields}}}")
    return job


def list_rails(value: Any) -> list[bool]:
    """Whether each container in a manifest has rails, in the order of the text."""
    if isinstance(value, list):
        return [flag for item in value for flag in list_rails(item)]
    if isinstance(value, dict) and "image" in value:
        return ["nvidia.com/rail0" in value["resources"].get("limits", {})]
    return [flag for item in value.values() for flag in list_rails(item)] if isinstance(value, dict) else []


@pytest.mark.parametrize("kind", KIND_FIELDS)
def test_gpus_of_the_fabrics_resource_are_gpus(kind: str) -> None:
    job = build(kind, "{limits: {nvidia.com/h200: 8}}", "{limits: {cpu: 8}}")
    inject_into_jobs([job], NAMED)
    assert list_rails(job) == KIND_FIELDS[kind][2]
    assert [item.notes for item in compare_jobs([job], NAMED)] == [[]]


@pytest.mark.parametrize("kind", KIND_FIELDS)
@pytest.mark.parametrize("zero", ["0", "'0'", "0k"])
def test_pods_that_ask_for_0_gpus_use_none(kind: str, zero: str) -> None:
    job = build(kind, GPUS, f"{{limits: {{nvidia.com/gpu: {zero}}}}}")
    inject_into_jobs([job], PLAIN)
    assert list_rails(job) == KIND_FIELDS[kind][2]


def test_gpus_of_the_fabrics_resource_are_reported_where_no_pod_is_known() -> None:
    graph = yaml.safe_load("{apiVersion: a.b/v1, kind: Graph, spec: {a: {resources: {limits: {nvidia.com/h200: 8}}}}}")
    jobs = compare_jobs([graph, build("JobSet", "{limits: {nvidia.com/h200: 8}}")], NAMED)
    assert [note.code for note in jobs[0].notes] == ["pod-of-unknown-kind"]


def test_a_topology_is_preferred_for_pods_with_gpus_of_the_fabrics_resource() -> None:
    job = build("JobSet", "{limits: {nvidia.com/h200: 8}}")
    prefer_topology(KINDS["jobset"], job, "nvidia.com/h200", "rack")
    templates = [group["template"]["spec"]["template"] for group in job["spec"]["replicatedJobs"]]
    assert ["metadata" in template for template in templates] == [False, True]


def runtime(**groups: str) -> dict[str, Any]:
    """An MPI runtime with replicated jobs of these names and resources."""
    jobs = [
        f"{{name: {name}, template: {{spec: {{template: {spec(resources)}}}}}}}" for name, resources in groups.items()
    ]
    fields = f"{{mlPolicy: {{mpi: {{}}}}, template: {{spec: {{replicatedJobs: [{', '.join(jobs)}]}}}}}}"
    manifest: dict[str, Any] = yaml.safe_load(
        f"{{apiVersion: trainer.kubeflow.org/v1alpha1, kind: ClusterTrainingRuntime, spec: {fields}}}"
    )
    return manifest


RUNTIMES = {
    "workers of another name": (runtime(launcher="{}", worker=GPUS), [False, True]),
    "the launcher has GPUs too": (runtime(launcher=GPUS, worker=GPUS), [False, True]),
    "nodes whose GPUs the job states": (runtime(launcher="{}", node="{}"), [False, True]),
}


@pytest.mark.parametrize(("manifest", "rails"), RUNTIMES.values(), ids=RUNTIMES)
def test_the_ranks_of_an_mpi_runtime_get_rails_whatever_their_name(manifest: Any, rails: list[bool]) -> None:
    manifest = copy.deepcopy(manifest)
    inject_into_jobs([manifest], PLAIN)
    assert list_rails(manifest) == rails


def mpi_job(worker: str) -> dict[str, Any]:
    """An MPIJob whose launcher has GPUs."""
    roles = f"{{Launcher: {{template: {spec(GPUS)}}}, Worker: {{template: {spec(worker)}}}}}"
    job: dict[str, Any] = yaml.safe_load(
        f"{{apiVersion: kubeflow.org/v1, kind: MPIJob, spec: {{mpiReplicaSpecs: {roles}}}}}"
    )
    return job


WITHOUT = {"a runtime": runtime(launcher=GPUS), "an MPIJob": mpi_job("{}")}


@pytest.mark.parametrize("manifest", WITHOUT.values(), ids=WITHOUT)
def test_pods_with_gpus_are_told_where_no_pod_of_the_job_gets_rails(manifest: dict[str, Any]) -> None:
    [job] = compare_jobs([manifest], PLAIN)
    assert [note.role.lower() for note in job.notes if note.code == "pod-gpus-without-rails"] == ["launcher"]


def test_a_launcher_with_gpus_beside_workers_with_rails_is_not_spoken_of() -> None:
    [job] = compare_jobs([mpi_job(GPUS)], PLAIN)
    assert "pod-gpus-without-rails" not in {note.code for note in job.notes}
