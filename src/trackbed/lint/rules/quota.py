"""Rules for Kueue's quotas for the NICs and GPUs of queued jobs."""

from collections.abc import Iterator

from trackbed.fabric.gpus import is_gpu_resource
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.typed_yaml import parse_values
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Breach
from trackbed.lint.pods import PodTemplate, is_nic_resource
from trackbed.lint.tree import dig, enumerate_mappings, enumerate_texts

QUEUE = "kueue.x-k8s.io/queue-name"
_CONFIGURATION_GROUP = "config.kueue.x-k8s.io"


def check_quota(corpus: Corpus) -> Iterator[Breach]:
    """Find NICs and GPUs of queued jobs that no quota covers."""
    for pod in corpus.pods:
        queue = pod.doc.get("metadata", "labels", QUEUE)
        names = _find_cluster_queues(corpus, pod, queue) if isinstance(queue, str) else set()
        queues = [doc for doc in corpus.select_kinds("ClusterQueue") if doc.name in names]
        known = {name for doc in queues for name in _list_covered_resources(doc)}  # files may be alternatives
        devices = [
            request for request in pod.resources if is_nic_resource(request.name) or is_gpu_resource(request.name)
        ]
        for request in devices if known else ():
            if request.name not in known and not _is_transformed(corpus, request.name):
                message = f"ClusterQueue {', '.join(sorted(names))} has no quota for {request.name}"
                yield Breach("quota-not-covered", pod.doc.tree, request.path, message, key=True)


def _find_cluster_queues(corpus: Corpus, pod: PodTemplate, queue_name: str) -> set[str]:
    """Return the ClusterQueues of a job's LocalQueue, or the only one there is.

    Where several LocalQueues have the name, those of the job's folder count, or all. A job without a namespace may be
    applied in any.
    """
    named = [
        doc
        for doc in corpus.select_kinds("LocalQueue")
        if doc.name == queue_name and (not pod.doc.namespace or doc.effective_namespace == pod.namespace)
    ]
    beside = [doc for doc in named if doc.folder == pod.doc.folder]
    clusters = {doc.name for doc in corpus.select_kinds("ClusterQueue")}
    if not corpus.select_kinds("LocalQueue"):
        return clusters if len(clusters) == 1 else set()
    return {doc.get_text("spec", "clusterQueue") for doc in beside or named}


def _is_transformed(corpus: Corpus, resource: str) -> bool:
    """Return whether Kueue's Configuration replaces a resource by others, or leaves it out."""
    for configuration in _iter_configurations(corpus):
        resources = dig(configuration, "resources")
        inputs = {entry.get("input") for _, entry in enumerate_mappings(dig(resources, "transformations"))}
        prefixes = [prefix for _, prefix in enumerate_texts(dig(resources, "excludeResourcePrefixes"))]
        if resource in inputs or resource.startswith(tuple(prefixes)):
            return True
    return False


def _iter_configurations(corpus: Corpus) -> Iterator[object]:
    """Yield the Configurations of Kueue, which are files in its ConfigMap."""
    for doc in corpus.select_kinds("Configuration"):
        if doc.group == _CONFIGURATION_GROUP:
            yield doc.tree.value
    for doc in corpus.select_kinds("ConfigMap"):
        for text in doc.get_mapping("data").values():
            if isinstance(text, str) and _CONFIGURATION_GROUP in text:
                yield from _parse_texts(text)


def _parse_texts(text: str) -> list[object]:
    try:
        return parse_values(text)
    except SpecError:
        return []


def _list_covered_resources(doc: Document) -> set[str]:
    groups = enumerate_mappings(doc.get("spec", "resourceGroups"))
    return {name for _, group in groups for _, name in enumerate_texts(group.get("coveredResources"))}


CHECKS = (check_quota,)
