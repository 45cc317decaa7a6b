from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.cluster.jobs.wanteds import PLAIN, template
from trackbed.cluster.jobs.jobs import put_rails, supported
from trackbed.cluster.jobs.template import NotAJobError

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, **template()}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}


def test_every_job_of_a_file_gets_rails_and_the_rest_stays() -> None:
    documents = copy.deepcopy([CONFIG, POD, None, "text", [1], POD])
    assert [job.title for job in put_rails(documents, PLAIN)] == ["Pod a", "Pod a"]
    assert [documents[index] for index in (0, 2, 3, 4)] == [CONFIG, None, "text", [1]]


def test_the_items_of_a_list_get_rails() -> None:
    found = put_rails([{"apiVersion": "v1", "kind": "List", "items": copy.deepcopy([CONFIG, POD])}], PLAIN)
    assert [job.title for job in found] == ["Pod a"]


def test_a_file_without_jobs_is_refused_with_what_is_supported() -> None:
    with pytest.raises(NotAJobError) as caught:
        put_rails([CONFIG], PLAIN)
    assert str(caught.value) == f"no job that can have rails; there are {supported()}"
    assert "MPIJob (kubeflow.org/v2beta1)" in supported()


VERSIONS = {
    "older MPIJob": ({"apiVersion": "kubeflow.org/v1", "kind": "MPIJob"}, "there is kubeflow.org/v2beta1"),
    "none": ({"kind": "Pod"}, "there is v1"),
    "older Ray": ({"apiVersion": "ray.io/v1alpha1", "kind": "RayJob"}, "there is ray.io/v1"),
}


@pytest.mark.parametrize(("one", "told"), VERSIONS.values(), ids=VERSIONS)
def test_a_version_that_is_not_known_is_refused_with_the_known_one(one: dict[str, Any], told: str) -> None:
    with pytest.raises(NotAJobError, match=told):
        put_rails([one, copy.deepcopy(POD)], PLAIN)


def test_the_same_word_in_another_group_is_no_job() -> None:
    assert len(put_rails([{"kind": "Job", "apiVersion": "other.org/v1"}, copy.deepcopy(POD)], PLAIN)) == 1


SHAPES: dict[str, tuple[dict[str, Any], str]] = {
    "a spec of text": ({"spec": "x"}, "Deployment (without a name): spec: expected a mapping, found 'x'"),
    "no containers": (
        {"spec": {"template": {"spec": {"x": 1}}}},
        "Deployment (without a name): spec.containers: expected at least one container",
    ),
}


@pytest.mark.parametrize(("fields", "told"), SHAPES.values(), ids=SHAPES)
def test_a_job_of_another_shape_is_refused_by_name(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(NotAJobError) as caught:
        put_rails([{"apiVersion": "apps/v1", "kind": "Deployment", **fields}], PLAIN)
    assert str(caught.value) == told
