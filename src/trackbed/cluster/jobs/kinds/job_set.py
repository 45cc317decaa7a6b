"""JobSet (jobset.x-k8s.io/v1alpha2): named groups of Jobs. A group gets rails if it uses GPUs, or if no group does."""

from collections.abc import Callable, Iterator
from typing import Any

from trackbed.cluster.jobs.kinds.kind import (
    JobKind,
    JobParameters,
    Template,
    build_container,
    build_pod_spec,
    build_ranked_command,
    read_count,
)
from trackbed.cluster.jobs.template import Mapping, ensure_mapping, read_mapping, read_mappings
from trackbed.cluster.stacks.objects import Manifest, build_manifest


def list_replicated_templates(job_set_spec: Mapping, path: str) -> list[Template]:
    """Return the pod templates in `replicatedJobs` of a JobSet's spec; `path` is that of the spec in its document."""
    groups = read_mappings(job_set_spec, "replicatedJobs")
    return list_group_templates(
        groups, f"{path}.replicatedJobs", "template", "spec", "template", count_pods=_count_pods_of_jobs
    )


def _count_pods_of_jobs(group: Mapping) -> int | None:
    jobs, pods = read_count(group, "replicas"), read_count(read_mapping(group, "template", "spec"), "parallelism")
    return None if jobs is None or pods is None else jobs * pods


def _count_replicas(group: Mapping) -> int | None:
    return read_count(group, "replicas")


def list_group_templates(
    replica_groups: list[Mapping],
    path: str,
    *keys: str,
    count_pods: Callable[[Mapping], int | None] = _count_replicas,
) -> list[Template]:
    """Return the pod template at `keys` of each group; see also `choose_gpu_users`.

    `path` is the path of the list of groups in the document. `count_pods` returns the number of pods of a group.
    """
    return [
        Template(
            f"{path}[{index}].{'.'.join(keys)}",
            ensure_mapping(group, *keys),
            gets_rails=True,
            role=str(group.get("name") or group.get("groupName") or ""),
            pods=count_pods(group),
        )
        for index, group in enumerate(replica_groups)
        if read_mapping(group, *keys)
    ]


def choose_gpu_users(templates: list[Template], gpu_resource: str) -> Iterator[Template]:
    """Yield the templates of a job; those without GPUs get no rails, unless no template has GPUs."""
    gpu_users = [template.uses_gpus(gpu_resource) for template in templates]
    for template, is_gpu_user in zip(templates, gpu_users, strict=True):
        yield template._replace(gets_rails=is_gpu_user or not any(gpu_users))


def _iter_templates(job: Mapping, gpu_resource: str) -> Iterator[Template]:
    return choose_gpu_users(list_replicated_templates(read_mapping(job, "spec"), "spec"), gpu_resource)


def _build_job(params: JobParameters) -> list[Manifest]:
    """Return a JobSet, whose controller creates the Service; the host name of a pod is JOBSET-GROUP-JOB-POD."""
    command = build_ranked_command(params, "$(JOB_COMPLETION_INDEX)", f"{params.name}-workers-0-0.{params.name}")
    job: dict[str, Any] = {
        "completionMode": "Indexed",
        "completions": params.node_count,
        "parallelism": params.node_count,
        "backoffLimit": 0,
        "template": {"spec": build_pod_spec(build_container(params, command), restartPolicy="Never")},
    }
    spec = {"replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": job}}]}
    return [build_manifest("jobset.x-k8s.io/v1alpha2", "JobSet", params.name, spec=spec)]


KINDS = (JobKind("jobset", "JobSet", ("jobset.x-k8s.io/v1alpha2",), _iter_templates, _build_job),)
