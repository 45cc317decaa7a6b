from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.cluster.jobs.wanteds import PLAIN, VARIABLES, WANTED, build_params, lost
from trackbed.cluster.jobs.kinds import KINDS
from trackbed.cluster.jobs.kinds.kind import JobContext, patch_job
from trackbed.cluster.jobs.kinds.trainer import API, PATCH_MANAGER
from trackbed.cluster.jobs.networks import ANNOTATION
from trackbed.cluster.jobs.requirements import PodRequirements

KIND = KINDS["trainjob"]
RUNTIME = KINDS["clustertrainingruntime"].build(build_params(PLAIN))[0]


def _job(**trainer: Any) -> dict[str, Any]:
    spec = {"runtimeRef": {"name": RUNTIME["metadata"]["name"]}, "trainer": {"numNodes": 2, **trainer}}
    return {"apiVersion": API, "kind": "TrainJob", "metadata": {"name": "t"}, "spec": spec}


def _gpus() -> dict[str, Any]:
    return {"limits": {"nvidia.com/gpu": 8}, "requests": {"memory": "64Gi"}}


def _codes(job: dict[str, Any], wanted: PodRequirements = PLAIN, *beside: dict[str, Any]) -> list[str]:
    return [note.code for note in patch_job(KIND, job, JobContext(wanted, beside)) if note.verdict != "missing"]


def test_without_its_runtime_a_train_job_carries_rails_in_its_patches() -> None:
    job = _job(resourcesPerNode=_gpus())
    assert _codes(job) == []
    trainer, entry = job["spec"]["trainer"], job["spec"]["runtimePatches"][0]
    assert trainer["resourcesPerNode"]["limits"] == {"nvidia.com/gpu": 8, "nvidia.com/rail0": 1, "nvidia.com/rail1": 1}
    assert trainer["env"] == [{"name": name, "value": value} for name, value in VARIABLES]
    assert entry["manager"] == PATCH_MANAGER
    group = entry["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]
    pod = group["template"]["spec"]["template"]
    assert len(json.loads(pod["metadata"]["annotations"][ANNOTATION])) == 2
    assert pod["spec"] == {
        "containers": [
            {
                "name": "node",
                "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],  # noqa: S108 - inside the pod
            }
        ],
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
        "nodeSelector": {"trackbed.dev/fabric": "train"},
    }


@pytest.mark.parametrize("wanted", WANTED.values(), ids=WANTED)
def test_patching_twice_changes_nothing_and_loses_nothing(wanted: PodRequirements) -> None:
    job = _job(resourcesPerNode=_gpus(), env=[{"name": "MINE", "value": "1"}], args=["a"])
    job["spec"]["runtimePatches"] = [{"manager": "theirs", "trainingRuntimeSpec": {"template": {"metadata": {}}}}]
    before = copy.deepcopy(job)
    patch_job(KIND, job, JobContext(wanted))
    once = copy.deepcopy(job)
    assert [note for note in patch_job(KIND, job, JobContext(wanted)) if note.verdict == "missing"] == []
    assert job == once
    assert lost(before, job) == []


def test_gpus_that_only_the_runtime_states_are_told() -> None:
    assert _codes(_job()) == ["pod-trainjob-without-gpus"]


@pytest.mark.parametrize("stack", ["claims", "host network"])
def test_what_the_api_cannot_carry_is_told_and_left_out(stack: str) -> None:
    job = _job(resourcesPerNode=_gpus())
    assert _codes(job, WANTED[stack]) == ["pod-trainjob-claims-in-patch"]
    assert not {"resourceClaims", "hostNetwork", "claims"} & set(json.dumps(job).replace('"', " ").split())


def test_beside_its_runtime_a_train_job_stays_as_it_is() -> None:
    job = _job(env=[{"name": "MINE", "value": "1"}])
    before = copy.deepcopy(job)
    assert patch_job(KIND, job, JobContext(PLAIN, [RUNTIME])) == []
    assert job == before


@pytest.mark.parametrize("stack", ["networks and devices", "claims"])
def test_resources_that_replace_the_runtimes_name_the_rails_too(stack: str) -> None:
    job, access = _job(resourcesPerNode=_gpus()), WANTED[stack].access
    patch_job(KIND, job, JobContext(WANTED[stack], [RUNTIME]))
    held = job["spec"]["trainer"]["resourcesPerNode"]
    assert {name for name, _ in access.resources} <= set(held["limits"])
    assert held.get("claims", []) == [{"name": claim.name} for claim in access.claims]
    assert patch_job(KIND, job, JobContext(WANTED[stack], [RUNTIME])) == []
