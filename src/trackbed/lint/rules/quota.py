"""Kueue: quota for the NICs that queued jobs ask for."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Hit
from trackbed.lint.pods import Pod
from trackbed.lint.tree import mappings, texts

QUEUE = "kueue.x-k8s.io/queue-name"


def covered(corpus: Corpus) -> Iterator[Hit]:
    """Resources of queued jobs that no quota covers."""
    for pod in corpus.pods:
        queue = pod.doc.get("metadata", "labels", QUEUE)
        cluster = _cluster_queue(corpus, pod, queue) if isinstance(queue, str) else None
        known = _covered(cluster) if cluster else set()
        for asked in pod.resources if cluster and known else ():
            if asked.name not in known:
                message = f"ClusterQueue {cluster.name if cluster else ''} has no quota for {asked.name}"
                yield Hit("quota-not-covered", pod.doc.tree, asked.path, message, key=True)


def _cluster_queue(corpus: Corpus, pod: Pod, queue: str) -> Document | None:
    clusters = {doc.name: doc for doc in corpus.of("ClusterQueue")}
    for local in corpus.of("LocalQueue"):
        if local.name == queue and local.home == pod.namespace:
            return clusters.get(local.text("spec", "clusterQueue"))
    return next(iter(clusters.values())) if len(clusters) == 1 and not corpus.of("LocalQueue") else None


def _covered(doc: Document) -> set[str]:
    groups = mappings(doc.get("spec", "resourceGroups"))
    return {name for _, group in groups for _, name in texts(group.get("coveredResources"))}


CHECKS = (covered,)
