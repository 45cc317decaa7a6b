"""Jobs that wait in a queue of Kueue (kueue.x-k8s.io/v1beta2), and the queue for a fabric.

Kueue admits a job only if every resource it asks for is among the queue's `coveredResources`; so rails stand there
beside the GPUs. It counts what the job's own template says: rails that a webhook adds to pods later are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trackbed.cluster.jobs.kinds.kind import QUEUE_LABEL, JobKind
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.template import Mapping, annotations_of, mapping
from trackbed.cluster.stacks.objects import Manifest, manifest, without_none
from trackbed.fabric.plan.plan import Plan

API = "kueue.x-k8s.io/v1beta2"
HOST = "kubernetes.io/hostname"
"""The lowest level of a Topology: the node."""
ANY_NODE = {"kubernetes.io/os": "linux"}
"""For clouds, whose nodes have no label of the fabric: Kueue wants one beside a topology, and this every node has."""
_NEAR = "kueue.x-k8s.io/podset-preferred-topology"
_UNLIMITED = {"cpu": "1M", "memory": "1Ei"}
"""Jobs often ask for these too; they are covered, and GPUs and rails are what runs out."""


def put_in_queue(kind: JobKind, job: Mapping, queue: str) -> None:
    """Name the queue where the kind has it, in place."""
    if kind.queue is not None:
        kind.queue(job, queue)
    else:
        mapping(job, "metadata", "labels")[QUEUE_LABEL] = queue


def put_near(kind: JobKind, job: Mapping, level: str) -> None:
    """Ask that the pods with rails share a value of a node label, in place."""
    for one in kind.templates(job):
        if one.gets_rails:
            annotations_of(one.template).setdefault(_NEAR, level)


def queue_objects(
    plan: Plan, wanted: PodRequirements, name: str, gpus: int, levels: Sequence[str] = ()
) -> list[Manifest]:
    """Topology, ResourceFlavor, ClusterQueue and LocalQueue for all nodes of the fabric.

    `levels` are node labels above the node, the widest first. Claims are counted only where Kueue's own configuration
    maps their device classes (deviceClassMappings), which is no object.
    """
    quotas = _quotas(plan, wanted, gpus)
    flavor = {"name": name, "resources": [{"name": one, "nominalQuota": quota} for one, quota in quotas.items()]}
    group = {"coveredResources": list(quotas), "flavors": [flavor]}
    labels = dict(wanted.selector) or ANY_NODE
    return [
        manifest(API, "Topology", name, spec={"levels": [{"nodeLabel": label} for label in (*levels, HOST)]}),
        manifest(API, "ResourceFlavor", name, spec={"nodeLabels": labels, "topologyName": name}),
        manifest(API, "ClusterQueue", name, spec={"namespaceSelector": {}, "resourceGroups": [group]}),
        manifest(API, "LocalQueue", name, spec={"clusterQueue": name}),
    ]


def _quotas(plan: Plan, wanted: PodRequirements, gpus: int) -> dict[str, Any]:
    """So much of each resource as jobs that take whole nodes can use."""
    access, nodes = wanted.access, len(plan.nodes)
    own = {access.gpu_resource: nodes * gpus} if access.gpu_resource else {}
    rails = {name: nodes * count for name, count in access.resources}
    pages = dict.fromkeys((name for name, _ in access.hugepages), _UNLIMITED["memory"])
    return without_none(**own, **rails, **pages) | _UNLIMITED
