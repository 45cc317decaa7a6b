"""Rules of all objects: scope, duplicates, texts, size."""

from collections import Counter
from collections.abc import Iterator

from trackbed.fabric.model.problems import Path
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Breach, Edit
from trackbed.lint.tree import list_mappings

_CLUSTER_SCOPED = {
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
"""Kinds without a namespace according to their CRDs."""

_OBJECT_LIMIT = 1536 * 1024
"""Bytes of one request to etcd (--max-request-bytes, 1.5 MiB by default)."""
_STATIC_BYTES = 194
"""Bytes of a static entry of a CIDRPool with its allocation in the status, measured."""
_ALLOCATION_BYTES = 97
"""Bytes of a node's allocation in the status of a pool, measured."""


def check_scope(corpus: Corpus) -> Iterator[Breach]:
    """Find cluster-scoped objects with a namespace."""
    for doc in corpus.documents:
        if doc.kind in _CLUSTER_SCOPED and doc.namespace:
            message = f"{doc.kind} is cluster-scoped; the namespace {doc.namespace!r} has no effect"
            place = doc.tree.source.find_place((*doc.tree.prefix, "metadata", "namespace"), key=True)
            line = doc.tree.lines[place.line - 1].strip() if place.line <= len(doc.tree.lines) else ""
            edit = Edit(line, "") if line.startswith("namespace:") else None
            yield Breach("cluster-scoped-namespace", doc.tree, ("metadata", "namespace"), message, key=True, edit=edit)


def check_duplicates(corpus: Corpus) -> Iterator[Breach]:
    """Find objects with the same kind, namespace and name."""
    counts = Counter((doc.kind, doc.group, doc.namespace, doc.name) for doc in corpus.documents if doc.name)
    first: dict[tuple[str, str, str, str], Document] = {}
    for doc in corpus.documents:
        key = (doc.kind, doc.group, doc.namespace, doc.name)
        if counts[key] > 1 and key in first:
            place = first[key].tree.find_place()
            message = f"{doc.title} is also at {place.file}:{place.line}; the object that is applied last wins"
            yield Breach("duplicate-object", doc.tree, ("metadata", "name"), message)
        first.setdefault(key, doc)


def check_texts(corpus: Corpus) -> Iterator[Breach]:
    """Find annotations, labels, selectors and environment variables whose values are not text."""
    for doc in corpus.documents:
        yield from _check_values(doc, ("metadata", "annotations"))
        yield from _check_values(doc, ("metadata", "labels"))
    for pod in corpus.pods:
        if pod.path:
            yield from _check_values(pod.doc, (*pod.path, "metadata", "annotations"))
            yield from _check_values(pod.doc, (*pod.path, "metadata", "labels"))
        yield from _check_values(pod.doc, (*pod.path, "spec", "nodeSelector"))
        for path, container in pod.list_containers(init=True):
            for number, env in list_mappings(container.get("env")):
                if not isinstance(env.get("value", ""), str):
                    yield _report_value(pod.doc, (*path, "env", number, "value"), str(env.get("name")))


def _check_values(doc: Document, path: Path) -> Iterator[Breach]:
    for name, value in doc.get_mapping(*path).items():
        if not isinstance(value, str):
            yield _report_value(doc, (*path, name), name)


def _report_value(doc: Document, path: Path, name: str) -> Breach:
    return Breach(
        "text-expected", doc.tree, path, f"the value of {name} is not text; the API server refuses the object"
    )


def check_size(corpus: Corpus) -> Iterator[Breach]:
    """Find pools whose entries do not fit into an object of etcd."""
    for doc in corpus.select("CIDRPool", "IPPool"):
        if doc.group != "nv-ipam.nvidia.com":
            continue
        static = len(list_mappings(doc.get("spec", "staticAllocations")))
        others = max((corpus.nodes or 0) - static, 0)
        size = static * _STATIC_BYTES + others * _ALLOCATION_BYTES
        if size > _OBJECT_LIMIT:
            message = (
                f"{static} static entries and {others} more nodes make about {size} bytes of one object; "
                f"etcd takes {_OBJECT_LIMIT}"
            )
            yield Breach("object-too-large", doc.tree, ("spec",), message, key=True)


CHECKS = (check_scope, check_duplicates, check_texts, check_size)
