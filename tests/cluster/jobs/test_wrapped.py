"""Jobs in Lists of Lists, and in objects of kinds that are not known."""

from __future__ import annotations

import copy
from typing import Any

from tests.cluster.jobs.wanteds import PLAIN, WANTED, template
from trackbed.cluster.jobs.jobs import compare_jobs, inject_into_jobs

LAUNCHER = {"spec": {"containers": [{"name": "l", "image": "i", "command": ["mpirun", "app"]}]}}
MPI_JOB = {
    "apiVersion": "kubeflow.org/v2beta1",
    "kind": "MPIJob",
    "metadata": {"name": "m"},
    "spec": {"mpiReplicaSpecs": {"Launcher": {"template": LAUNCHER}, "Worker": {"template": template()}}},
}
GRAPH = {"kind": "Graph", "resources": {"limits": {"nvidia.com/gpu": 8}}}


def wrap(*objects: dict[str, Any], **metadata: str) -> dict[str, Any]:
    """An AppWrapper of objects."""
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": "w", **metadata},
        "spec": {"components": [{"template": copy.deepcopy(manifest)} for manifest in objects]},
    }


def get_launcher(job: dict[str, Any]) -> Any:
    return job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]


def test_the_items_of_a_list_in_a_list_keep_their_kind() -> None:
    job = copy.deepcopy(MPI_JOB)
    inner = {"apiVersion": "v1", "kind": "List", "items": [job]}
    jobs = inject_into_jobs([{"apiVersion": "v1", "kind": "List", "items": [inner]}], PLAIN)
    assert [patched.title for patched in jobs] == ["MPIJob m"]
    assert get_launcher(job)["command"][:2] == ["mpirun", "-x"]


def test_a_job_in_an_object_of_another_kind_keeps_its_kind() -> None:
    wrapper = wrap({"kind": "ConfigMap"}, MPI_JOB)
    [patched] = inject_into_jobs([wrapper], PLAIN)
    assert patched.title == "MPIJob m in AppWrapper w"
    assert {note.path.partition(".spec.")[2].partition(".")[0] for note in patched.notes} == {"mpiReplicaSpecs"}
    assert all(note.path.startswith("spec.components[1].template.spec.") for note in patched.notes)
    launcher = get_launcher(wrapper["spec"]["components"][1]["template"])
    assert (launcher["command"][:2], "resources" in launcher) == (["mpirun", "-x"], False)
    assert [job.notes for job in compare_jobs([wrapper], PLAIN)] == [[]]


def test_pods_and_gpus_beside_a_job_in_an_object_are_those_of_the_object() -> None:
    crew = {"kind": "Crew", "spec": {"template": template()}}
    jobs = inject_into_jobs([wrap(crew, MPI_JOB, GRAPH)], PLAIN)
    assert [patched.title for patched in jobs] == ["AppWrapper w", "MPIJob m in AppWrapper w"]
    assert [(note.code, note.path) for note in jobs[0].notes if note.verdict != "missing"] == [
        ("pod-of-unknown-kind", "spec.components[2].template.resources")
    ]


def test_a_pod_in_an_object_is_one_job() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **template()}
    assert [job.title for job in inject_into_jobs([wrap(pod)], PLAIN)] == ["Pod p in AppWrapper w"]


def test_a_job_without_gpus_in_an_object_of_another_kind_stays() -> None:
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": LAUNCHER}}
    wrapper = wrap(web, MPI_JOB)
    inject_into_jobs([wrapper], PLAIN)
    assert wrapper["spec"]["components"][0]["template"] == web


def test_a_job_in_an_object_has_its_namespace_or_else_that_of_the_object() -> None:
    placed = MPI_JOB | {"metadata": {"name": "m", "namespace": "ai"}}
    jobs = compare_jobs([wrap(placed, MPI_JOB, namespace="b")], WANTED["claims"])
    paths = [[note.path for note in job.notes if note.code == "claim-template-not-found"] for job in jobs]
    assert paths == [[], ["spec.components[1].template.metadata.namespace"]]
