"""Rules of Kueue's quotas for the NICs of queued jobs."""

from collections.abc import Iterator

from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Breach
from trackbed.lint.pods import PodTemplate
from trackbed.lint.tree import list_mappings, list_texts

QUEUE = "kueue.x-k8s.io/queue-name"


def check_quota(corpus: Corpus) -> Iterator[Breach]:
    """Find resources of queued jobs that no quota covers."""
    for pod in corpus.pods:
        queue = pod.doc.get("metadata", "labels", QUEUE)
        cluster = _find_cluster_queue(corpus, pod, queue) if isinstance(queue, str) else None
        known = _list_covered(cluster) if cluster else set()
        for request in pod.resources if cluster and known else ():
            if request.name not in known:
                message = f"ClusterQueue {cluster.name if cluster else ''} has no quota for {request.name}"
                yield Breach("quota-not-covered", pod.doc.tree, request.path, message, key=True)


def _find_cluster_queue(corpus: Corpus, pod: PodTemplate, queue: str) -> Document | None:
    clusters = {doc.name: doc for doc in corpus.select("ClusterQueue")}
    for local in corpus.select("LocalQueue"):
        if local.name == queue and local.effective_namespace == pod.namespace:
            return clusters.get(local.get_text("spec", "clusterQueue"))
    return next(iter(clusters.values())) if len(clusters) == 1 and not corpus.select("LocalQueue") else None


def _list_covered(doc: Document) -> set[str]:
    groups = list_mappings(doc.get("spec", "resourceGroups"))
    return {name for _, group in groups for _, name in list_texts(group.get("coveredResources"))}


CHECKS = (check_quota,)
