from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.jobs.wanteds import PLAIN, build_params
from tests.cluster.stacks.sites import alike, planned
from trackbed.cluster.jobs.kinds import KINDS, build_job, set_namespace
from trackbed.cluster.jobs.kinds.queued import build_queue_objects
from trackbed.cluster.jobs.template import NotAJobError

LABEL = "kueue.x-k8s.io/queue-name"
NEAR = "kueue.x-k8s.io/podset-preferred-topology"
PLACES: dict[str, tuple[str, ...]] = {
    "cronjob": ("spec", "jobTemplate", "metadata", "labels", LABEL),
    "volcanojob": ("spec", "queue"),
}
"""Kind -> where its queue is named, if not in a label of the job itself."""
UNQUEUED = {"trainingruntime", "clustertrainingruntime", "daemonset"}


@pytest.mark.parametrize("kind", [name for name in KINDS if name not in UNQUEUED])
def test_a_queued_job_names_its_queue(kind: str) -> None:
    result: Any = build_job(KINDS[kind], PLAIN, build_params(PLAIN), "q")[0][-1]
    for key in PLACES.get(kind, ("metadata", "labels", LABEL)):
        result = result[key]
    assert result == "q"


@pytest.mark.parametrize("kind", sorted(UNQUEUED))
def test_what_waits_in_no_queue_refuses_one(kind: str) -> None:
    with pytest.raises(NotAJobError, match="queued"):
        build_job(KINDS[kind], PLAIN, build_params(PLAIN), "q")


@pytest.mark.parametrize("kind", KINDS)
def test_pods_with_rails_ask_to_be_kept_together(kind: str) -> None:
    objects = build_job(KINDS[kind], PLAIN, build_params(PLAIN), topology_label="rack")[0]
    holder = objects[0] if kind == "trainjob" else objects[-1]
    known = KINDS["clustertrainingruntime"] if kind == "trainjob" else KINDS[kind]
    near = {
        job_template.gets_rails: job_template.template.get("metadata", {}).get("annotations", {})
        for job_template in known.iter_templates(holder, PLAIN.gpu_resource)
    }
    assert near[True][NEAR] == "rack"
    assert NEAR not in near.get(False, {})


def test_a_queue_covers_gpus_rails_and_what_else_jobs_ask_for() -> None:
    plan = planned("network-operator-hostdevice", alike(4, 2), 2)
    objects = build_queue_objects(plan, PLAIN, "q", 8, ["rack"])
    assert [manifest["kind"] for manifest in objects] == ["Topology", "ResourceFlavor", "ClusterQueue", "LocalQueue"]
    assert objects[0]["spec"]["levels"] == [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    group = objects[2]["spec"]["resourceGroups"][0]
    quotas = {item["name"]: item["nominalQuota"] for item in group["flavors"][0]["resources"]}
    assert quotas == {
        "nvidia.com/gpu": 32,
        "nvidia.com/rail0": 4,
        "nvidia.com/rail1": 4,
        "cpu": "1M",
        "memory": "1Ei",
    }
    assert group["coveredResources"] == list(quotas)


def test_only_what_lives_in_a_namespace_says_so() -> None:
    plan = planned("network-operator-hostdevice", alike(4, 2), 2)
    placed = set_namespace(build_queue_objects(plan, PLAIN, "q", 8), "ai")
    assert [manifest["metadata"].get("namespace") for manifest in placed] == [None, None, None, "ai"]
