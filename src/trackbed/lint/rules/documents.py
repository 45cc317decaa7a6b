"""Rules for all objects: scope, duplicates, texts, size."""

from collections.abc import Iterator

from trackbed.fabric.model.problems import Path
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Breach, Edit
from trackbed.lint.schemas.partial import is_partial
from trackbed.lint.tree import enumerate_mappings

_CLUSTER_SCOPED_KINDS = {
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
_OBJECT_LIMIT = 1536 * 1024
"""Maximum bytes of one request to etcd (--max-request-bytes, 1.5 MiB by default)."""
_STATIC_BYTES = 194
"""Measured bytes of a static entry of a CIDRPool and of its allocation in the status."""
_ALLOCATION_BYTES = 97
"""Measured bytes of a node's allocation in the status of a pool."""


def check_scope(corpus: Corpus) -> Iterator[Breach]:
    """Find cluster-scoped objects that have a namespace."""
    for doc in corpus.documents:
        if doc.kind in _CLUSTER_SCOPED_KINDS and doc.namespace:
            message = f"{doc.kind} is cluster-scoped; the namespace {doc.namespace!r} has no effect"
            place = doc.tree.source.find_place((*doc.tree.prefix, "metadata", "namespace"), key=True)
            line = doc.tree.lines[place.line - 1].strip() if place.line <= len(doc.tree.lines) else ""
            edit = Edit(line, "") if line.startswith("namespace:") else None
            yield Breach("cluster-scoped-namespace", doc.tree, ("metadata", "namespace"), message, key=True, edit=edit)


def check_duplicates(corpus: Corpus) -> Iterator[Breach]:
    """Find objects of one file with the same kind, namespace and name; files may be alternatives.

    An object that a server has returned may be in its file in several states, as `kubectl get --watch` prints them.
    Several patches may be for one object.
    """
    first: dict[tuple[object, str], Document] = {}
    for doc in corpus.documents:
        if doc.get("metadata", "resourceVersion") or is_partial(doc, ()):
            continue
        key = (doc.identity, doc.tree.source.file)
        if key in first:
            place = first[key].tree.find_place()
            is_same = doc.tree.value == first[key].tree.value
            effect = "both are equal, and Kustomize refuses that" if is_same else "the object that is applied last wins"
            message = f"{doc.title} is also at {place.file}:{place.line}; {effect}"
            breach = Breach("duplicate-object", doc.tree, ("metadata", "name"), message)
            yield breach._replace(severity="note") if is_same else breach
        elif doc.identity:
            first[key] = doc


def check_texts(corpus: Corpus) -> Iterator[Breach]:
    """Find annotations, labels, selectors and environment variables whose values are not text."""
    for doc in corpus.documents:
        yield from _check_text_values(doc, ("metadata", "annotations"))
        yield from _check_text_values(doc, ("metadata", "labels"))
    for pod in corpus.pods:
        if pod.path and not pod.is_bare:
            yield from _check_text_values(pod.doc, pod.locate("metadata", "annotations"))
            yield from _check_text_values(pod.doc, pod.locate("metadata", "labels"))
        yield from _check_text_values(pod.doc, pod.locate("spec", "nodeSelector"))
        for path, container in pod.list_containers(init=True):
            for number, env in enumerate_mappings(container.get("env")):
                if not isinstance(env.get("value"), str | None):
                    yield _build_text_breach(pod.doc, (*path, "env", number, "value"), str(env.get("name")))


def _check_text_values(doc: Document, path: Path) -> Iterator[Breach]:
    for name, value in doc.get_mapping(*path).items():
        if not isinstance(value, str | None):  # null is read as empty text
            yield _build_text_breach(doc, (*path, name), name)


def _build_text_breach(doc: Document, path: Path, key: str) -> Breach:
    return Breach("text-expected", doc.tree, path, f"the value of {key} is not text; the API server refuses the object")


def check_size(corpus: Corpus) -> Iterator[Breach]:
    """Find nv-ipam pools whose entries do not fit into one etcd object."""
    for doc in corpus.select_kinds("CIDRPool", "IPPool"):
        if doc.group != "nv-ipam.nvidia.com":
            continue
        static = len(enumerate_mappings(doc.get("spec", "staticAllocations")))
        others = max((corpus.node_count or 0) - static, 0)
        size = static * _STATIC_BYTES + others * _ALLOCATION_BYTES
        if size > _OBJECT_LIMIT:
            message = (
                f"{static} static entries and {others} more nodes make about {size} bytes of one object; "
                f"etcd takes {_OBJECT_LIMIT}"
            )
            yield Breach("object-too-large", doc.tree, ("spec",), message, key=True)


def check_secrets(corpus: Corpus) -> Iterator[Breach]:
    """Find Secrets of ib-kubernetes that send UFM's password to a server that is not verified."""
    for doc in corpus.select_kinds("Secret"):
        fields = {key: value for part in ("data", "stringData") for key, value in doc.get_mapping(part).items()}
        if {"UFM_ADDRESS", "UFM_PASSWORD"} <= fields.keys() and not fields.get("UFM_CERTIFICATE"):
            message = "UFM_CERTIFICATE is missing, so ib-kubernetes sends the password to any server at UFM's address"
            section = "stringData" if "UFM_ADDRESS" in doc.get_mapping("stringData") else "data"
            yield Breach("ufm-not-verified", doc.tree, (section,), message, key=True)


CHECKS = (check_secrets, check_scope, check_duplicates, check_texts, check_size)
