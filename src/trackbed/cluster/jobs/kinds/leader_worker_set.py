"""LeaderWorkerSet (leaderworkerset.x-k8s.io/v1): the leader is rank 0, and gets rails unless only workers use GPUs."""

from collections.abc import Iterator

from trackbed.cluster.jobs.kinds.job_set import choose_gpu_users
from trackbed.cluster.jobs.kinds.kind import (
    JobKind,
    JobParameters,
    Template,
    build_container,
    build_pod_spec,
    build_ranked_command,
    read_count,
)
from trackbed.cluster.jobs.template import Mapping, ensure_mapping, read_mapping
from trackbed.cluster.stacks.objects import Manifest, build_manifest

_PATH = ("spec", "leaderWorkerTemplate")


def _iter_templates(job: Mapping, gpu_resource: str) -> Iterator[Template]:
    groups, size = read_count(read_mapping(job, "spec"), "replicas"), read_count(read_mapping(job, *_PATH), "size")
    leaders = bool(read_mapping(job, *_PATH, "leaderTemplate"))
    templates = [
        Template(
            ".".join((*_PATH, key)),
            ensure_mapping(job, *_PATH, key),
            gets_rails=True,
            role=role,
            pods=None if groups is None or size is None else groups * (1 if role == "leader" else size - leaders),
        )
        for role, key in (("leader", "leaderTemplate"), ("worker", "workerTemplate"))
        if read_mapping(job, *_PATH, key)
    ]
    return choose_gpu_users(templates, gpu_resource)


def _build_job(params: JobParameters) -> list[Manifest]:
    """Return a LeaderWorkerSet. It has no leaderTemplate, so the leader is created from workerTemplate."""
    command = build_ranked_command(params, "$(LWS_WORKER_INDEX)", "$(LWS_LEADER_ADDRESS)", keep_running=True)
    spec = {
        "replicas": 1,
        "leaderWorkerTemplate": {
            "size": params.node_count,
            "workerTemplate": {"spec": build_pod_spec(build_container(params, command))},
        },
    }
    return [build_manifest("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", params.name, spec=spec)]


KINDS = (JobKind("leaderworkerset", "LeaderWorkerSet", ("leaderworkerset.x-k8s.io/v1",), _iter_templates, _build_job),)
