"""The job APIs that can have rails: a module with `KINDS` for each family, and one line for it here."""

from __future__ import annotations

from importlib import import_module

from trackbed.cluster.jobs.kinds.kind import JobKind, Shape, patch
from trackbed.cluster.jobs.kinds.queued import put_in_queue, put_near
from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.template import Mapping, look
from trackbed.cluster.stacks.objects import Manifest
from trackbed.fabric.plan.plan import Plan

_FAMILIES = (
    "core",
    "stateful_set",
    "job",
    "pytorch_job",
    "mpi_job",
    "trainer",
    "job_set",
    "leader_worker_set",
    "volcano",
    "ray",
)
"""Modules beside this one, in the order of the reference."""


def _load_kinds(family: str) -> tuple[JobKind, ...]:
    kinds: tuple[JobKind, ...] = import_module(f"{__name__}.{family}").KINDS
    return kinds


KINDS: dict[str, JobKind] = {kind.name: kind for family in _FAMILIES for kind in _load_kinds(family)}
"""Name on the command line -> kind."""


def kind_of(document: Mapping) -> JobKind | None:
    """The kind of an object; None if it is no job, or of a version that is not known."""
    version, name = document.get("apiVersion"), document.get("kind")
    return next((kind for kind in KINDS.values() if kind.kind == name and version in kind.api_versions), None)


def other_version(document: Mapping) -> JobKind | None:
    """The kind that an object has in another version of the same API group than those that are known."""
    name, group = document.get("kind"), str(document.get("apiVersion")).rpartition("/")[0]
    if kind_of(document) is not None:
        return None
    same = (kind for kind in KINDS.values() if kind.kind == name)
    return next((kind for kind in same if kind.api_versions[0].rpartition("/")[0] == group), None)


def shape(plan: Plan, wanted: PodRequirements, name: str, image: str, nodes: int) -> Shape:
    """What a new job on this plan is to be: all GPUs of each node, as many as the node with the fewest has."""
    counts = [len({gpu for port in node.ports for gpu in port.gpus}) for node in plan.nodes]
    access = wanted.access
    return Shape(
        name=name,
        image=image,
        nodes=nodes,
        gpus=max(1, min(counts, default=1)),
        gpu_resource=access.gpu_resource,
        host_network=access.host_network,
        huge_pages=bool(access.hugepages),
    )


def new(
    kind: JobKind, wanted: PodRequirements, shape: Shape, queue: str | None = None, level: str | None = None
) -> tuple[list[Manifest], list[Note]]:
    """A ready job with rails: its objects, the job last, and what there is to say about them.

    `queue` is a LocalQueue of Kueue (for Volcano one of its Queues); `level` a node label of a Topology, whose nodes
    Kueue shall prefer to keep together.
    """
    objects = kind.skeleton(shape)
    notes: list[Note] = []
    for one in objects:
        found = kind_of(one)
        if found is not None:
            notes += patch(found, one, wanted, objects)
            if level is not None:
                put_near(found, one, level)
    if queue is not None:
        put_in_queue(kind, objects[-1], queue)
    return objects, [note for note in notes if note.verdict != "missing"]


def in_namespace(objects: list[Manifest], namespace: str) -> list[Manifest]:
    """The objects, those that live in a namespace with that one written into them."""
    for one in objects:
        if one["kind"] not in CLUSTER_SCOPED:
            name = look(one, "metadata")["name"]
            one["metadata"] = {"name": name, "namespace": namespace, **one["metadata"]}
    return objects


CLUSTER_SCOPED = frozenset({"ClusterTrainingRuntime", "ResourceFlavor", "ClusterQueue", "Topology"})
