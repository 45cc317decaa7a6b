"""Volcano Job (batch.volcano.sh/v1alpha1): tasks that use GPUs get rails; all tasks do if none uses GPUs."""

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.jobs.kinds.job_set import choose_gpu_users, list_group_templates
from trackbed.cluster.jobs.kinds.kind import (
    MASTER_PORT,
    JobKind,
    JobParameters,
    Template,
    build_container,
    build_pod_spec,
)
from trackbed.cluster.jobs.program import build_torchrun_command
from trackbed.cluster.jobs.template import Mapping, ensure_mapping, read_mapping, read_mappings
from trackbed.cluster.stacks.objects import Manifest, build_manifest


def _iter_templates(job: Mapping, gpu_resource: str) -> Iterator[Template]:
    tasks = read_mappings(read_mapping(job, "spec"), "tasks")
    return choose_gpu_users(list_group_templates(tasks, "spec.tasks", "template"), gpu_resource)


def _build_job(params: JobParameters) -> list[Manifest]:
    """Return a Job. Plugin svc sets the pods' DNS names and VC_WORKER_HOSTS, plugin env their VC_TASK_INDEX."""
    spec: dict[str, Any] = {
        "schedulerName": "volcano",
        "minAvailable": params.node_count,
        "plugins": {"env": [], "svc": []},
        "tasks": [
            {
                "name": "worker",
                "replicas": params.node_count,
                "template": {
                    "spec": build_pod_spec(
                        build_container(params, _build_torchrun_shell_command(params)), restartPolicy="Never"
                    )
                },
            }
        ],
    }
    return [build_manifest("batch.volcano.sh/v1alpha1", "Job", params.name, spec=spec)]


def _build_torchrun_shell_command(params: JobParameters) -> list[str]:
    """Return a shell command that runs torchrun; rank 0 is on the first host in VC_WORKER_HOSTS."""
    start = (
        f"exec torchrun --nnodes={params.node_count} --nproc-per-node={params.gpus_per_node} "
        f'--node-rank=$VC_TASK_INDEX --master-addr="${{VC_WORKER_HOSTS%%,*}}" --master-port={MASTER_PORT} "$@"'
    )
    return ["sh", "-c", start, "torchrun", *build_torchrun_command()[1:]]


def _set_queue(job: Mapping, queue: str) -> None:
    ensure_mapping(job, "spec")["queue"] = queue


KINDS = (
    JobKind("volcanojob", "Job", ("batch.volcano.sh/v1alpha1",), _iter_templates, _build_job, set_queue=_set_queue),
)
