"""Volcano Job (batch.volcano.sh/v1alpha1): tasks; those that use GPUs get rails, or all if none does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.jobs.kinds.job_set import uses_gpus
from trackbed.cluster.jobs.kinds.kind import PORT, JobKind, Shape, Template, container, pod
from trackbed.cluster.jobs.program import torchrun
from trackbed.cluster.jobs.template import Mapping, items, look, mapping
from trackbed.cluster.stacks.objects import Manifest, manifest


def _templates(job: Mapping) -> Iterator[Template]:
    found = items(look(job, "spec"), "tasks")
    asking = [uses_gpus(look(one, "template", "spec")) for one in found]
    for index, one in enumerate(found):
        rails = asking[index] or not any(asking)
        yield Template(f"spec.tasks[{index}].template", mapping(one, "template"), rails)


def _skeleton(shape: Shape) -> list[Manifest]:
    """Plugin svc names the pods in DNS and in VC_WORKER_HOSTS; plugin env numbers them."""
    spec: dict[str, Any] = {
        "schedulerName": "volcano",
        "minAvailable": shape.nodes,
        "plugins": {"env": [], "svc": []},
        "tasks": [
            {
                "name": "worker",
                "replicas": shape.nodes,
                "template": {"spec": pod(container(shape, _command(shape)), restartPolicy="Never")},
            }
        ],
    }
    return [manifest("batch.volcano.sh/v1alpha1", "Job", shape.name, spec=spec)]


def _command(shape: Shape) -> list[str]:
    """The first of the hosts is rank 0; only a shell can cut it off the list."""
    start = (
        f"exec torchrun --nnodes={shape.nodes} --nproc-per-node={shape.gpus} --node-rank=$VC_TASK_INDEX "
        f'--master-addr="${{VC_WORKER_HOSTS%%,*}}" --master-port={PORT} "$@"'
    )
    return ["sh", "-c", start, "torchrun", *torchrun()[1:]]


def _queue(job: Mapping, name: str) -> None:
    mapping(job, "spec")["queue"] = name


KINDS = (JobKind("volcanojob", "Job", ("batch.volcano.sh/v1alpha1",), _templates, _skeleton, queue=_queue),)
