"""Jobs in a queue of Kueue (kueue.x-k8s.io/v1beta2), and the objects of a queue for a fabric.

Kueue admits a job only if the queue's `coveredResources` contain every resource that the job requests, so they list the
rails besides the GPUs. Kueue counts the requests in the job's template; rails that a webhook adds to pods later are not
counted.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from trackbed.cluster.jobs.kinds.kind import QUEUE_LABEL, JobKind
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.template import Mapping, ensure_annotations, ensure_mapping
from trackbed.cluster.stacks.objects import Manifest, build_manifest, drop_none
from trackbed.fabric.plan.plan import Plan

API = "kueue.x-k8s.io/v1beta2"
HOST_LABEL = "kubernetes.io/hostname"
"""Node label of the lowest level of a Topology: the node itself."""
ANY_NODE_LABELS = {"kubernetes.io/os": "linux"}
"""Label of every node, for clouds without fabric labels: a ResourceFlavor with a topology needs a node label."""
_UNLIMITED = {"cpu": "1M", "memory": "1Ei"}
"""Quotas of CPU and memory, large enough never to limit a job; only GPUs and rails are limited."""


def put_in_queue(kind: JobKind, job: Mapping, queue: str) -> None:
    """Set the queue of a job, in place, as its kind requires."""
    if kind.set_queue is not None:
        kind.set_queue(job, queue)
    else:
        ensure_mapping(job, "metadata", "labels")[QUEUE_LABEL] = queue


def prefer_topology(kind: JobKind, job: Mapping, gpu_resource: str, topology_label: str) -> None:
    """Annotate the pod templates with rails, so that Kueue prefers nodes with the same value of a node label."""
    for template in kind.iter_templates(job, gpu_resource):
        if template.gets_rails:
            ensure_annotations(template.template).setdefault("kueue.x-k8s.io/podset-preferred-topology", topology_label)


def build_queue_objects(
    plan: Plan, requirements: PodRequirements, queue_name: str, gpus_per_node: int, topology_labels: Sequence[str] = ()
) -> list[Manifest]:
    """Return Topology, ResourceFlavor, ClusterQueue and LocalQueue for all nodes of the fabric, all of one name.

    `topology_labels` are the node labels of levels above the node, the widest first. Resource claims are counted only
    if Kueue's configuration file maps their device classes (deviceClassMappings); no object can do so.
    """
    quotas = _compute_quotas(plan, requirements, gpus_per_node)
    flavor = {
        "name": queue_name,
        "resources": [{"name": resource, "nominalQuota": quota} for resource, quota in quotas.items()],
    }
    group = {"coveredResources": list(quotas), "flavors": [flavor]}
    labels = dict(requirements.selector) or ANY_NODE_LABELS
    return [
        build_manifest(
            API,
            "Topology",
            queue_name,
            spec={"levels": [{"nodeLabel": label} for label in (*topology_labels, HOST_LABEL)]},
        ),
        build_manifest(API, "ResourceFlavor", queue_name, spec={"nodeLabels": labels, "topologyName": queue_name}),
        build_manifest(API, "ClusterQueue", queue_name, spec={"namespaceSelector": {}, "resourceGroups": [group]}),
        build_manifest(API, "LocalQueue", queue_name, spec={"clusterQueue": queue_name}),
    ]


def _compute_quotas(plan: Plan, requirements: PodRequirements, gpus_per_node: int) -> dict[str, Any]:
    """Return the quota of each resource: what all nodes offer together of GPUs and rails, the rest unlimited."""
    access, nodes = requirements.access, len(plan.nodes)
    gpus = Counter(plan.get_gpu_resource(node.name) for node in plan.nodes)
    rails = {name: nodes * count for name, count in access.resources}
    pages = dict.fromkeys((name for name, _ in access.hugepages), _UNLIMITED["memory"])
    return drop_none(**{name: count * gpus_per_node for name, count in gpus.items()}, **rails, **pages) | _UNLIMITED
