"""Objects as such, whatever they are about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trackbed.fabric.model.problems import Path
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Edit, Hit
from trackbed.lint.tree import mappings

_CLUSTER = {
    "NicClusterPolicy",
    "NicNodePolicy",
    "HostDeviceNetwork",
    "MacvlanNetwork",
    "IPoIBNetwork",
    "SpiderIPPool",
    "SpiderSubnet",
    "SpiderReservedIP",
    "SpiderCoordinator",
    "ClusterQueue",
    "ResourceFlavor",
    "ClusterTrainingRuntime",
    "HyperNode",
    "DeviceClass",
}
"""Kinds without a namespace, as their CRDs say."""

_OBJECT_LIMIT = 1536 * 1024
"""Bytes of one request to etcd (--max-request-bytes, 1.5 MiB by default)."""
_STATIC_BYTES = 194
"""A static entry of a CIDRPool and the allocation in its status, measured."""
_ALLOCATION_BYTES = 97
"""A node's allocation in the status of a pool, measured."""


def cluster_scoped(corpus: Corpus) -> Iterator[Hit]:
    """Namespaces on objects that have none."""
    for doc in corpus.documents:
        if doc.kind in _CLUSTER and doc.namespace:
            message = f"{doc.kind} is cluster-scoped; the namespace {doc.namespace!r} says nothing"
            written = doc.tree.source.find_place((*doc.tree.prefix, "metadata", "namespace"), key=True)
            line = doc.tree.lines[written.line - 1].strip() if written.line <= len(doc.tree.lines) else ""
            edit = Edit(line, "") if line.startswith("namespace:") else None
            yield Hit("cluster-scoped-namespace", doc.tree, ("metadata", "namespace"), message, key=True, edit=edit)


def duplicates(corpus: Corpus) -> Iterator[Hit]:
    """Two objects of one name."""
    counts = Counter((doc.kind, doc.group, doc.namespace, doc.name) for doc in corpus.documents if doc.name)
    first: dict[tuple[str, str, str, str], Document] = {}
    for doc in corpus.documents:
        key = (doc.kind, doc.group, doc.namespace, doc.name)
        if counts[key] > 1 and key in first:
            there = first[key].tree.place()
            message = f"{doc.title} is also at {there.file}:{there.line}; whichever is applied last stays"
            yield Hit("duplicate-object", doc.tree, ("metadata", "name"), message)
        first.setdefault(key, doc)


def texts_expected(corpus: Corpus) -> Iterator[Hit]:
    """Numbers and booleans where Kubernetes takes text only."""
    for doc in corpus.documents:
        yield from _mapping_of_texts(doc, ("metadata", "annotations"))
        yield from _mapping_of_texts(doc, ("metadata", "labels"))
    for pod in corpus.pods:
        if pod.path:
            yield from _mapping_of_texts(pod.doc, (*pod.path, "metadata", "annotations"))
            yield from _mapping_of_texts(pod.doc, (*pod.path, "metadata", "labels"))
        yield from _mapping_of_texts(pod.doc, (*pod.path, "spec", "nodeSelector"))
        for path, container in pod.containers(init=True):
            for number, env in mappings(container.get("env")):
                if not isinstance(env.get("value", ""), str):
                    yield _not_text(pod.doc, (*path, "env", number, "value"), str(env.get("name")))


def _mapping_of_texts(doc: Document, path: Path) -> Iterator[Hit]:
    for name, value in doc.mapping(*path).items():
        if not isinstance(value, str):
            yield _not_text(doc, (*path, name), name)


def _not_text(doc: Document, path: Path, name: str) -> Hit:
    return Hit("text-expected", doc.tree, path, f"the value of {name} is not text; the API server refuses the object")


def too_large(corpus: Corpus) -> Iterator[Hit]:
    """Pools whose entries do not fit one object."""
    for doc in corpus.of("CIDRPool", "IPPool"):
        if doc.group != "nv-ipam.nvidia.com":
            continue
        static = len(mappings(doc.get("spec", "staticAllocations")))
        others = max((corpus.nodes or 0) - static, 0)
        size = static * _STATIC_BYTES + others * _ALLOCATION_BYTES
        if size > _OBJECT_LIMIT:
            message = (
                f"{static} static entries and {others} more nodes make about {size} bytes of one object; "
                f"etcd takes {_OBJECT_LIMIT}"
            )
            yield Hit("object-too-large", doc.tree, ("spec",), message, key=True)


CHECKS = (cluster_scoped, duplicates, texts_expected, too_large)
