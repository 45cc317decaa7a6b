"""PyTorchJob (kubeflow.org/v1, Training Operator 1.x): the Master is rank 0 and gets rails like all workers.

If only one of these roles uses GPUs, the other gets no rails.
"""

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.jobs.kinds.job_set import choose_gpu_users
from trackbed.cluster.jobs.kinds.kind import (
    JobKind,
    JobParameters,
    Template,
    build_container,
    build_pod_spec,
    read_count,
)
from trackbed.cluster.jobs.program import build_torchrun_command
from trackbed.cluster.jobs.template import Mapping, ensure_mapping, read_mapping
from trackbed.cluster.stacks.objects import Manifest, build_manifest

_REPLICAS = ("spec", "pytorchReplicaSpecs")


def _iter_templates(job: Mapping, gpu_resource: str) -> Iterator[Template]:
    return choose_gpu_users(list(iter_role_templates(job, *_REPLICAS)), gpu_resource)


def iter_role_templates(job: Mapping, *keys: str) -> Iterator[Template]:
    """Yield the pod templates of the replica specs at `keys`, a mapping with the roles as keys."""
    for role in read_mapping(job, *keys):
        path = (*keys, role, "template")
        if read_mapping(job, *path):
            pods = read_count(read_mapping(job, *path[:-1]), "replicas")
            field = ".".join(map(str, path))
            yield Template(field, ensure_mapping(job, *path), gets_rails=True, role=str(role), pods=pods)


def _build_job(params: JobParameters) -> list[Manifest]:
    """Return a PyTorchJob; the operator sets torchrun's options by environment variables PET_*."""
    roles = {"Master": _build_replica_spec(params, 1), "Worker": _build_replica_spec(params, params.node_count - 1)}
    spec = {
        "nprocPerNode": str(params.gpus_per_node),
        "pytorchReplicaSpecs": {role: replica_spec for role, replica_spec in roles.items() if replica_spec["replicas"]},
    }
    return [build_manifest("kubeflow.org/v1", "PyTorchJob", params.name, spec=spec)]


def _build_replica_spec(params: JobParameters, replicas: int) -> dict[str, Any]:
    """Return the replica spec of a role; the operator requires the container name pytorch."""
    trainer = build_container(params, build_torchrun_command(), "pytorch")
    return {"replicas": replicas, "restartPolicy": "Never", "template": {"spec": build_pod_spec(trainer)}}


KINDS = (JobKind("pytorchjob", "PyTorchJob", ("kubeflow.org/v1",), _iter_templates, _build_job),)
