"""Registry of the job APIs that can use rails. Each module listed here defines `KINDS` for one family of APIs.

Other kinds are searched for pods that use GPUs (`pod_specs`).
"""

from importlib import import_module
from typing import NamedTuple

from trackbed.cluster.jobs.kinds.kind import JobContext, JobKind, JobParameters, patch_job, refuse_to_build
from trackbed.cluster.jobs.kinds.queued import prefer_topology, put_in_queue
from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.template import Mapping, read_mapping
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
    "kserve",
    "argo",
)
"""Modules of this package, in the order of the reference page."""


ALL_KINDS: tuple[JobKind, ...] = tuple(
    kind for family in _FAMILIES for kind in import_module(f"{__name__}.{family}").KINDS
)
"""The job kinds that can have rails."""
KINDS: dict[str, JobKind] = {kind.name: kind for kind in ALL_KINDS if kind.build is not refuse_to_build}
"""Name on the command line -> job kind of which a new job can be written."""


def find_kind(manifest: Mapping) -> JobKind | None:
    """Return the job kind of an object; None if the object is not a job or has an unsupported API version."""
    version, name = manifest.get("apiVersion"), manifest.get("kind")
    return next((kind for kind in ALL_KINDS if kind.kind == name and version in kind.api_versions), None)


def find_kind_of_other_version(manifest: Mapping) -> JobKind | None:
    """Return the job kind of an object whose API version is unsupported; None if it is supported or not a job."""
    name, group = manifest.get("kind"), str(manifest.get("apiVersion")).rpartition("/")[0]
    if find_kind(manifest) is not None:
        return None
    kinds = (kind for kind in ALL_KINDS if kind.kind == name)
    return next((kind for kind in kinds if kind.api_versions[0].rpartition("/")[0] == group), None)


CPUS_PER_GPU, MEMORY_PER_GPU_GIB = 4, 32
"""CPU and memory of new jobs where kubelet pins CPUs and the user states none."""


def build_job_parameters(
    plan: Plan, requirements: PodRequirements, name: str, image: str, node_count: int
) -> JobParameters:
    """Return the parameters of a new job, which uses as many GPUs per node as the node with the fewest has.

    Where the Fabric reserves CPUs, kubelet pins the others to Guaranteed pods, so the job states CPU and memory.
    """
    counts = [node.count_gpus() for node in plan.nodes]
    access = requirements.access
    gpus = max(1, min(counts, default=1))
    pins_cpus = plan.common.kubelet is not None and plan.common.kubelet.reserved_cpus is not None
    defaults = (("cpu", str(CPUS_PER_GPU * gpus)), ("memory", f"{MEMORY_PER_GPU_GIB * gpus}Gi"))
    return JobParameters(
        name=name,
        image=image,
        node_count=node_count,
        gpus_per_node=gpus,
        gpu_resource=requirements.gpu_resource,
        host_network=access.host_network,
        huge_pages=bool(access.hugepages),
        compute=defaults if pins_cpus else (),
    )


class NewJob(NamedTuple):
    """The objects of a new job, the job last, and notes on remaining differences from the plan."""

    objects: list[Manifest]
    notes: list[Note]


def build_job(
    kind: JobKind,
    requirements: PodRequirements,
    params: JobParameters,
    queue: str | None = None,
    topology_label: str | None = None,
) -> NewJob:
    """Return the objects of a new job with rails.

    `queue` is a LocalQueue of Kueue (a Queue of Volcano for volcanojob). `topology_label` is a node label of a
    Topology; Kueue prefers to place the pods on nodes with the same value of it.
    """
    objects = kind.build(params)
    context = JobContext(requirements, objects, namespace=params.namespace)
    notes: list[Note] = []
    for manifest in objects:
        job_kind = find_kind(manifest)
        if job_kind is not None:
            notes += patch_job(job_kind, manifest, context)
            if topology_label is not None:
                prefer_topology(job_kind, manifest, requirements.gpu_resource, topology_label)
    if queue is not None:
        for manifest in objects:
            if find_kind(manifest) is kind:
                put_in_queue(kind, manifest, queue)
    return NewJob(objects, [note for note in dict.fromkeys(notes) if note.verdict != "missing"])


def set_namespace(objects: list[Manifest], namespace: str) -> list[Manifest]:
    """Set the namespace of all objects that are not cluster-scoped, in place; return the objects."""
    for manifest in objects:
        if manifest["kind"] not in CLUSTER_SCOPED:
            name = read_mapping(manifest, "metadata")["name"]
            manifest["metadata"] = {"name": name, "namespace": namespace, **manifest["metadata"]}
    return objects


CLUSTER_SCOPED = frozenset({"ClusterTrainingRuntime", "ResourceFlavor", "ClusterQueue", "Topology"})
"""Kinds of new objects that have no namespace."""
