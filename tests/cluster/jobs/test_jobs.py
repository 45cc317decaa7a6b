from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.cluster.jobs.wanteds import PLAIN, WANTED, template
from trackbed.cluster.jobs.jobs import describe_supported_kinds, inject_into_jobs
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.template import NotAJobError

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, **template()}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}


def test_every_job_of_a_file_gets_rails_and_the_rest_stays() -> None:
    documents = copy.deepcopy([CONFIG, POD, None, "text", [1], POD])
    assert [job.title for job in inject_into_jobs(documents, PLAIN)] == ["Pod a", "Pod a"]
    assert [documents[index] for index in (0, 2, 3, 4)] == [CONFIG, None, "text", [1]]


def test_the_items_of_a_list_get_rails() -> None:
    patched = inject_into_jobs([{"apiVersion": "v1", "kind": "List", "items": copy.deepcopy([CONFIG, POD])}], PLAIN)
    assert [job.title for job in patched] == ["Pod a"]


def test_a_file_without_jobs_is_refused_with_what_is_supported() -> None:
    with pytest.raises(NotAJobError) as caught:
        inject_into_jobs([CONFIG], PLAIN)
    expected = f"there are {describe_supported_kinds()}, and other kinds with pods that use GPUs"
    assert str(caught.value) == f"no job that can have rails; {expected}"
    assert "MPIJob (kubeflow.org/v2beta1 or kubeflow.org/v1)" in describe_supported_kinds()


VERSIONS = {
    "older MPIJob": (
        {"apiVersion": "kubeflow.org/v1alpha2", "kind": "MPIJob"},
        "there is kubeflow.org/v2beta1 or kubeflow.org/v1",
    ),
    "none": ({"kind": "Pod"}, "there is v1"),
    "older Ray": ({"apiVersion": "ray.io/v1alpha1", "kind": "RayJob"}, "there is ray.io/v1"),
}


@pytest.mark.parametrize(("pod", "message"), VERSIONS.values(), ids=VERSIONS)
def test_a_version_that_is_not_known_is_refused_with_the_known_one(pod: dict[str, Any], message: str) -> None:
    with pytest.raises(NotAJobError, match=message):
        inject_into_jobs([pod, copy.deepcopy(POD)], PLAIN)


def test_the_same_word_in_another_group_is_no_job() -> None:
    assert len(inject_into_jobs([{"kind": "Job", "apiVersion": "other.org/v1"}, copy.deepcopy(POD)], PLAIN)) == 1


SHAPES: dict[str, tuple[dict[str, Any], str]] = {
    "a spec of text": ({"spec": "x"}, "Deployment (without a name): spec: expected a mapping, found 'x'"),
    "no containers": (
        {"spec": {"template": {"spec": {"x": 1}}}},
        "Deployment (without a name): spec.containers: expected at least one container",
    ),
}


@pytest.mark.parametrize(("fields", "message"), SHAPES.values(), ids=SHAPES)
def test_a_job_of_another_shape_is_refused_by_name(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(NotAJobError) as caught:
        inject_into_jobs([{"apiVersion": "apps/v1", "kind": "Deployment", **fields}], PLAIN)
    assert str(caught.value) == message


OTHER_TYPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a volume's name": ({"volumes": [{"name": ["a"]}]}, {}),
    "a claim's name": ({"resourceClaims": [{"name": ["a"], "resourceClaimTemplateName": "b"}]}, {}),
    "a resource's name": ({}, {"resources": {"limits": {1: 2}}}),
    "a user": ({}, {"securityContext": {"runAsUser": [1]}}),
}


@pytest.mark.parametrize("wanted", WANTED.values(), ids=WANTED)
@pytest.mark.parametrize(("pod", "container"), OTHER_TYPES.values(), ids=OTHER_TYPES)
def test_values_of_other_types_are_left_to_the_api_server(
    pod: dict[str, Any], container: dict[str, Any], wanted: PodRequirements
) -> None:
    job = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, **template(**container)}
    job["spec"].update(copy.deepcopy(pod))
    assert len(inject_into_jobs([copy.deepcopy(job)], wanted)) == 1


def test_capabilities_that_are_no_list_are_refused_by_name() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", **template(securityContext={"capabilities": {"drop": 5}})}
    with pytest.raises(NotAJobError, match="drop: expected a list, found 5"):
        inject_into_jobs([pod], PLAIN)


def test_a_command_that_is_no_list_is_refused_by_name_whatever_the_mpi() -> None:
    launcher = {"template": {"spec": {"containers": [{"name": "l", "command": 5}]}}}
    spec = {"mpiImplementation": "Intel", "mpiReplicaSpecs": {"Launcher": launcher}}
    with pytest.raises(NotAJobError, match="command: expected a list, found 5"):
        inject_into_jobs([{"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": spec}], PLAIN)
