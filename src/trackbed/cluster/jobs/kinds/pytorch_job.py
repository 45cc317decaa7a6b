"""PyTorchJob (kubeflow.org/v1, Training Operator 1.x): the Master is rank 0 and needs rails like every worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.jobs.kinds.kind import JobKind, Shape, Template, container, pod
from trackbed.cluster.jobs.program import torchrun
from trackbed.cluster.jobs.template import Mapping, look, mapping
from trackbed.cluster.stacks.objects import Manifest, manifest

_REPLICAS = ("spec", "pytorchReplicaSpecs")


def _templates(job: Mapping) -> Iterator[Template]:
    for role in look(job, *_REPLICAS):
        path = (*_REPLICAS, role, "template")
        yield Template(".".join(path), mapping(job, *path), gets_rails=True)


def _skeleton(shape: Shape) -> list[Manifest]:
    """The operator tells torchrun the rest by PET_ variables."""
    roles = {"Master": _role(shape, 1), "Worker": _role(shape, shape.nodes - 1)}
    spec = {
        "nprocPerNode": str(shape.gpus),
        "pytorchReplicaSpecs": {role: one for role, one in roles.items() if one["replicas"]},
    }
    return [manifest("kubeflow.org/v1", "PyTorchJob", shape.name, spec=spec)]


def _role(shape: Shape, replicas: int) -> dict[str, Any]:
    """The container must be called pytorch."""
    one = container(shape, torchrun(), "pytorch")
    return {"replicas": replicas, "restartPolicy": "Never", "template": {"spec": pod(one)}}


KINDS = (JobKind("pytorchjob", "PyTorchJob", ("kubeflow.org/v1",), _templates, _skeleton),)
