"""JobSet (jobset.x-k8s.io/v1alpha2): named groups of Jobs; each gets rails if it uses GPUs, or if none does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.jobs.kinds.kind import JobKind, Shape, Template, container, pod, ranked
from trackbed.cluster.jobs.template import Mapping, items, look, mapping, names
from trackbed.cluster.stacks.objects import Manifest, manifest

_GPU = "/gpu"


def replicated(parent: Mapping, path: str) -> Iterator[Template]:
    """The templates of `replicatedJobs`, a field of `parent` that stands at `path`."""
    found = items(parent, "replicatedJobs")
    asking = [uses_gpus(look(one, "template", "spec", "template", "spec")) for one in found]
    for index, one in enumerate(found):
        place = f"{path}.replicatedJobs[{index}].template.spec.template"
        template = mapping(one, "template", "spec", "template")
        yield Template(place, template, asking[index] or not any(asking))


def uses_gpus(spec: Mapping) -> bool:
    """Whether a container of the pod asks for GPUs, whatever their kind, or has a claim."""
    found = items(spec, "containers")
    claiming = any(items(look(one, "resources"), "claims") for one in found)
    return claiming or any(name.endswith(_GPU) or "/mig-" in name for one in found for name in names(one))


def _templates(job: Mapping) -> Iterator[Template]:
    yield from replicated(look(job, "spec"), "spec")


def _skeleton(shape: Shape) -> list[Manifest]:
    """JobSet itself makes the Service; pods are called JOBSET-GROUP-JOB-POD in the domain of the JobSet."""
    command = ranked(shape, "$(JOB_COMPLETION_INDEX)", f"{shape.name}-workers-0-0.{shape.name}")
    job: dict[str, Any] = {
        "completionMode": "Indexed",
        "completions": shape.nodes,
        "parallelism": shape.nodes,
        "backoffLimit": 0,
        "template": {"spec": pod(container(shape, command), restartPolicy="Never")},
    }
    spec = {"replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": job}}]}
    return [manifest("jobset.x-k8s.io/v1alpha2", "JobSet", shape.name, spec=spec)]


KINDS = (JobKind("jobset", "JobSet", ("jobset.x-k8s.io/v1alpha2",), _templates, _skeleton),)
