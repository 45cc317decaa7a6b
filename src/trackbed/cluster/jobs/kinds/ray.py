"""RayCluster and RayJob (ray.io/v1): workers get rails; the head schedules and uses no GPU.

A head that asks for GPUs works like a worker and gets rails too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.jobs.kinds.job_set import uses_gpus
from trackbed.cluster.jobs.kinds.kind import JobKind, Shape, Template, container, pod
from trackbed.cluster.jobs.program import RAY
from trackbed.cluster.jobs.template import Mapping, items, look, mapping
from trackbed.cluster.stacks.objects import Manifest, manifest

_PROGRAM = "/opt/all-reduce"


def _templates(spec: Mapping, path: str) -> Iterator[Template]:
    if look(spec, "headGroupSpec", "template"):
        rails = uses_gpus(look(spec, "headGroupSpec", "template", "spec"))
        yield Template(f"{path}.headGroupSpec.template", mapping(spec, "headGroupSpec", "template"), rails)
    for index, group in enumerate(items(spec, "workerGroupSpecs")):
        yield Template(f"{path}.workerGroupSpecs[{index}].template", mapping(group, "template"), gets_rails=True)


def _of_cluster(job: Mapping) -> Iterator[Template]:
    yield from _templates(look(job, "spec"), "spec")


def _of_job(job: Mapping) -> Iterator[Template]:
    """A RayJob may name a cluster that is there already; then it has no templates."""
    yield from _templates(look(job, "spec", "rayClusterSpec"), "spec.rayClusterSpec")


def _cluster(shape: Shape) -> list[Manifest]:
    return [manifest("ray.io/v1", "RayCluster", shape.name, spec=_groups(shape))]


def _job(shape: Shape) -> list[Manifest]:
    program = manifest("v1", "ConfigMap", shape.name, data={"all_reduce.py": RAY})
    cluster = _groups(shape)
    head = cluster["headGroupSpec"]["template"]["spec"]
    head["volumes"] = [{"name": "program", "configMap": {"name": shape.name}}]
    head["containers"][0] |= {
        "env": [{"name": "RANKS", "value": str(shape.nodes * shape.gpus)}],
        "volumeMounts": [{"name": "program", "mountPath": _PROGRAM}],
    }
    spec = {
        "entrypoint": f"python {_PROGRAM}/all_reduce.py",
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": cluster,
    }
    return [program, manifest("ray.io/v1", "RayJob", shape.name, spec=spec)]


def _groups(shape: Shape) -> dict[str, Any]:
    head = {"name": "head", "image": shape.image}
    group = {
        "groupName": "workers",
        "replicas": shape.nodes,
        "minReplicas": shape.nodes,
        "maxReplicas": shape.nodes,
        "rayStartParams": {},
        "template": {"spec": pod(container(shape, (), "worker"))},
    }
    return {
        "headGroupSpec": {"rayStartParams": {"num-cpus": "0"}, "template": {"spec": pod(head)}},
        "workerGroupSpecs": [group],
    }


KINDS = (
    JobKind("raycluster", "RayCluster", ("ray.io/v1",), _of_cluster, _cluster),
    JobKind("rayjob", "RayJob", ("ray.io/v1",), _of_job, _job),
)
