"""RayCluster, RayJob and RayService (ray.io/v1): workers get rails; the head schedules and uses no GPU.

A head that requests GPUs works like a worker and gets rails too. Groups of workers without GPUs beside others with GPUs
get none.
"""

from collections.abc import Callable, Iterator
from typing import Any

from trackbed.cluster.jobs.kinds.job_set import choose_gpu_users, list_group_templates
from trackbed.cluster.jobs.kinds.kind import (
    JobKind,
    JobParameters,
    Template,
    build_container,
    build_pod_spec,
    uses_gpus,
)
from trackbed.cluster.jobs.program import RAY
from trackbed.cluster.jobs.template import Mapping, ensure_mapping, read_mapping, read_mappings
from trackbed.cluster.stacks.objects import Manifest, build_manifest

_PROGRAM = "/opt/all-reduce"


def _iter_templates(job: Mapping, gpu_resource: str, *keys: str) -> Iterator[Template]:
    """Yield the pod templates of the RayCluster spec at `keys`; a RayJob for an existing cluster has none."""
    spec, path = read_mapping(job, *keys), ".".join(keys)
    if read_mapping(spec, "headGroupSpec", "template"):
        head = ensure_mapping(spec, "headGroupSpec", "template")
        is_gpu_user = uses_gpus(read_mapping(head, "spec"), gpu_resource)
        yield Template(f"{path}.headGroupSpec.template", head, is_gpu_user, "head")
    groups = list_group_templates(read_mappings(spec, "workerGroupSpecs"), f"{path}.workerGroupSpecs", "template")
    yield from choose_gpu_users(groups, gpu_resource)


def _build_cluster(params: JobParameters) -> list[Manifest]:
    return [build_manifest("ray.io/v1", "RayCluster", params.name, spec=_build_cluster_spec(params))]


def _build_job(params: JobParameters) -> list[Manifest]:
    program = build_manifest("v1", "ConfigMap", params.name, data={"all_reduce.py": RAY})
    cluster = _build_cluster_spec(params)
    head = cluster["headGroupSpec"]["template"]["spec"]
    head["volumes"] = [{"name": "program", "configMap": {"name": params.name}}]
    head["containers"][0] |= {
        "env": [{"name": "RANKS", "value": str(params.node_count * params.gpus_per_node)}],
        "volumeMounts": [{"name": "program", "mountPath": _PROGRAM}],
    }
    spec = {
        "entrypoint": f"python {_PROGRAM}/all_reduce.py",
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": cluster,
    }
    return [program, build_manifest("ray.io/v1", "RayJob", params.name, spec=spec)]


def _build_cluster_spec(params: JobParameters) -> dict[str, Any]:
    head = {"name": "head", "image": params.image}
    group = {
        "groupName": "workers",
        "replicas": params.node_count,
        "minReplicas": params.node_count,
        "maxReplicas": params.node_count,
        "rayStartParams": {},
        "template": {"spec": build_pod_spec(build_container(params, (), "worker"))},
    }
    return {
        "headGroupSpec": {"rayStartParams": {"num-cpus": "0"}, "template": {"spec": build_pod_spec(head)}},
        "workerGroupSpecs": [group],
    }


def _make_reader(*keys: str) -> Callable[[Mapping, str], Iterator[Template]]:
    return lambda job, gpu_resource: _iter_templates(job, gpu_resource, *keys)


KINDS = (
    JobKind("raycluster", "RayCluster", ("ray.io/v1",), _make_reader("spec"), _build_cluster),
    JobKind("rayjob", "RayJob", ("ray.io/v1",), _make_reader("spec", "rayClusterSpec"), _build_job),
    JobKind("rayservice", "RayService", ("ray.io/v1",), _make_reader("spec", "rayClusterConfig")),
)
