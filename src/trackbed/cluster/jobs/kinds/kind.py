"""A kind of job: where its pod templates are, which of them get rails, and what a new one looks like."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from trackbed.cluster.jobs.inject import inject, stray
from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.program import torchrun
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.template import Mapping, look, mapping
from trackbed.cluster.stacks.objects import Manifest

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Names the LocalQueue; on the job itself, whatever its kind (Kueue, "Run a Kubernetes Job")."""
NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
"""Names of new jobs: short enough that the pods made of them have valid host names (63, RFC 1123)."""
PORT = 29500
"""torchrun's own default for the port of rank 0."""


class Template(NamedTuple):
    """One pod template of a job."""

    path: str
    template: Mapping
    gets_rails: bool


class Shape(msgspec.Struct, frozen=True):
    """What a new job is to be."""

    name: str
    image: str
    nodes: int
    gpus: int
    """GPUs of one node."""
    gpu_resource: str | None = "nvidia.com/gpu"
    """None where a claim gives the GPUs."""
    host_network: bool = False
    huge_pages: bool = False


@dataclass(frozen=True, slots=True)
class JobKind:
    """One job API."""

    name: str
    """As the command line names it."""
    kind: str
    api_versions: tuple[str, ...]
    templates: Callable[[Mapping], Iterator[Template]]
    skeleton: Callable[[Shape], list[Manifest]]
    """A ready job without rails, as one or more objects; the job is the last of them."""
    patch: Callable[[Mapping, PodRequirements, Sequence[Mapping]], list[Note]] | None = None
    """Puts rails on a job where its templates alone are not enough; the last argument holds all objects of its file."""
    queue: Callable[[Mapping, str], None] | None = None
    """Puts the job in a queue. Default: Kueue's label."""


def only(*keys: str) -> Callable[[Mapping], Iterator[Template]]:
    """The templates of a kind that has one, with rails."""

    def templates(job: Mapping) -> Iterator[Template]:
        if look(job, *keys):
            yield Template(".".join(keys), mapping(job, *keys), gets_rails=True)

    return templates


def patch(kind: JobKind, job: Mapping, wanted: PodRequirements, beside: Sequence[Mapping] = ()) -> list[Note]:
    """Put rails on a job, in place; NotAJobError where it has not the shape of its kind."""
    return kind.patch(job, wanted, beside) if kind.patch else patch_templates(kind.templates(job), job, wanted)


def patch_templates(templates: Iterator[Template], job: Mapping, wanted: PodRequirements) -> list[Note]:
    """Put rails on the templates that get them; say which of the others hold some."""
    found: list[Note] = []
    for one in templates:
        act = inject if one.gets_rails else stray
        found += [note.below(one.path) for note in act(one.template, wanted, namespace(job))]
    return found


def namespace(job: Mapping) -> str | None:
    """The namespace a job says; None where whoever applies it chooses."""
    found = look(job, "metadata").get("namespace")
    return None if found is None else str(found)


def container(shape: Shape, command: Sequence[str], name: str = "trainer", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any field of a container
    """A container that uses all GPUs of a node."""
    limits = {shape.gpu_resource: shape.gpus} if shape.gpu_resource else {}
    requests = {"memory": "64Gi"} if shape.huge_pages else {}
    resources = {name: values for name, values in (("limits", limits), ("requests", requests)) if values}
    return {
        "name": name,
        "image": shape.image,
        **({"command": list(command)} if command else {}),
        **fields,
        **({"resources": resources} if resources else {}),
    }


def pod(one: dict[str, Any], **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any field of a pod's spec
    """The spec of a pod of one container."""
    return {**fields, "containers": [one]}


def ranked(shape: Shape, rank: str, master: str, *, stays: bool = False) -> list[str]:
    """Call torchrun in pods that know their rank and the name of rank 0's pod; the kubelet fills in `$(NAME)`."""
    return torchrun(
        f"--nnodes={shape.nodes}",
        f"--nproc-per-node={shape.gpus}",
        f"--node-rank={rank}",
        f"--master-addr={master}",
        f"--master-port={PORT}",
        stays=stays,
    )


def label_of(name: str, path: str) -> dict[str, Any]:
    """A variable filled from a label or field of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
