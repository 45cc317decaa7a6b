"""Argo Workflows: templates at all places, and GPUs that are in texts."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.cluster.jobs.wanteds import PLAIN
from trackbed.cluster.jobs.jobs import compare_jobs, inject_into_jobs

CONTAINER = {"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 8}}}
POD = {"container": CONTAINER}


def workflow(**spec: Any) -> dict[str, Any]:
    fields = copy.deepcopy(spec)
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "w"}, "spec": fields}


PLACES: dict[str, tuple[dict[str, Any], str]] = {
    "defaults": ({"templateDefaults": POD}, "spec.templateDefaults.container"),
    "a set": (
        {"templates": [{"name": "s", "containerSet": {"containers": [{"name": "a", "image": "i"}, CONTAINER]}}]},
        "spec.templates[0].containerSet.containers[1]",
    ),
    "a task": (
        {"templates": [{"name": "d", "dag": {"tasks": [{"name": "b"}, {"name": "a", "inline": POD}]}}]},
        "spec.templates[0].dag.tasks[1].inline.container",
    ),
    "a step": (
        {"templates": [{"name": "d", "steps": [[{"name": "b"}], [{"name": "a", "inline": POD}]]}]},
        "spec.templates[0].steps[1][0].inline.container",
    ),
}


@pytest.mark.parametrize(("spec", "container"), PLACES.values(), ids=PLACES)
def test_templates_with_gpus_get_rails_wherever_they_are(spec: dict[str, Any], container: str) -> None:
    job = workflow(**spec)
    [patched] = inject_into_jobs([job], PLAIN)
    paths = [note.path for note in patched.notes if note.code == "network-resource-not-requested"]
    assert paths == [f"{container}.resources.limits"] * 2
    assert "nvidia.com/rail0" in str(job["spec"])
    assert "k8s.v1.cni.cncf.io/networks" in str(job["spec"])
    assert [item.notes for item in compare_jobs([job], PLAIN)] == [[]]


TEXTS: dict[str, tuple[dict[str, Any], str]] = {
    "a manifest": (
        {"templates": [{"resource": {"action": "create", "manifest": "limits: {nvidia.com/gpu: 8}"}}]},
        "spec.templates[0].resource.manifest",
    ),
    "a patch of a template's pods": (
        {"templates": [{"container": {"image": "i"}, "podSpecPatch": '{"limits": {"nvidia.com/gpu": 8}}'}]},
        "spec.templates[0].podSpecPatch",
    ),
    "a patch of all pods": ({"podSpecPatch": "limits: {amd.com/gpu: 8}"}, "spec.podSpecPatch"),
    "a field that is not known": (
        {"templates": [{"plugin": {"a": CONTAINER}}]},
        "spec.templates[0].plugin.a.resources",
    ),
}


@pytest.mark.parametrize(("spec", "path"), TEXTS.values(), ids=TEXTS)
def test_gpus_that_cannot_be_given_rails_are_reported(spec: dict[str, Any], path: str) -> None:
    [patched] = compare_jobs([workflow(**spec)], PLAIN)
    assert [(note.code, note.path) for note in patched.notes] == [("pod-of-unknown-kind", path)]


def test_a_manifest_without_gpus_is_not_spoken_of() -> None:
    templates = [{"resource": {"action": "create", "manifest": "apiVersion: apps/v1"}}, {"resource": {}}]
    assert [job.notes for job in compare_jobs([workflow(templates=templates)], PLAIN)] == [[]]


def test_the_hosts_network_of_a_workflow_is_that_of_its_pods() -> None:
    job = workflow(hostNetwork=True, templates=[{"name": "a", **POD}])
    before = copy.deepcopy(job)
    [patched] = inject_into_jobs([job], PLAIN)
    assert [(note.code, note.path) for note in patched.notes] == [("host-network-with-networks", "spec.hostNetwork")]
    assert job == before
    [quiet] = compare_jobs([workflow(hostNetwork=True, templates=[{"container": {"image": "i"}}])], PLAIN)
    assert quiet.notes == []
