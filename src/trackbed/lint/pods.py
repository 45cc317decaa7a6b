"""Pod templates wherever they stand: in a Pod, a Job, a PyTorchJob, a runtime of Trainer.

Every job API nests the same shape (metadata beside a spec with containers), so the shape is looked for, not the API.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from trackbed.fabric.model.problems import Path
from trackbed.lint.document import NETWORKS, Document
from trackbed.lint.jsontext import JsonText, json_text
from trackbed.lint.tree import Tree, dig, mappings

_NOT_PODS = {"CustomResourceDefinition", "ConfigMap", "Secret"}
CORE_RESOURCES = {"cpu", "memory", "ephemeral-storage", "storage", "pods"}
_GPU = re.compile(r"(?:nvidia\.com/(?:gpu|pgpu|mig-.*)|amd\.com/gpu|.*/gpu(?:\.shared)?)$")
_NIC_PREFIXES = ("nvidia.com", "openshift.io", "spidernet.io", "intel.com", "mellanox.com", "rdma", "k8s.cni.cncf.io")


class Wanted(NamedTuple):
    """One network that a pod asks for."""

    name: str
    namespace: str
    """As written; empty means the pod's own."""
    interface: str
    tree: Tree
    path: Path
    """Where it is named."""


class Asked(NamedTuple):
    """One extended resource of one container."""

    name: str
    amount: object
    container: Path
    path: Path
    """Of its limit, or of its request where there is no limit."""


class Pod(NamedTuple):
    """One pod template."""

    doc: Document
    path: Path
    """Of the mapping that holds metadata and spec."""
    annotation: JsonText | None
    """The networks annotation where it is written as JSON."""
    networks: tuple[Wanted, ...]
    resources: tuple[Asked, ...]
    """Extended resources: not cpu, memory or hugepages."""

    @property
    def namespace(self) -> str:
        """Where the pods run."""
        return self.doc.home

    def get(self, *path: str | int) -> Any:  # noqa: ANN401 - YAML holds anything
        """The value at `path` inside the template."""
        return self.doc.get(*self.path, *path)

    def annotations(self) -> dict[str, Any]:
        """Annotations of the pods."""
        found = self.get("metadata", "annotations")
        return found if isinstance(found, dict) else {}

    def containers(self, *, init: bool = False) -> list[tuple[Path, dict[str, Any]]]:
        """The containers with their paths in the document; with `init` also the init containers."""
        names = ("containers", "initContainers") if init else ("containers",)
        return [
            ((*self.path, "spec", name, number), container)
            for name in names
            for number, container in mappings(self.get("spec", name))
        ]

    def nics(self) -> list[Asked]:
        """What looks like NICs among the resources: neither GPUs nor devices of other vendors."""
        return [asked for asked in self.resources if is_nic(asked.name)]

    def gpus(self) -> int:
        """GPUs of the pod."""
        return sum(
            asked.amount for asked in self.resources if _GPU.fullmatch(asked.name) and isinstance(asked.amount, int)
        )


def is_nic(resource: str) -> bool:
    """Whether a resource name is one that SR-IOV, host device or shared RDMA plugins give out."""
    return resource.startswith(tuple(f"{prefix}/" for prefix in _NIC_PREFIXES)) and not _GPU.fullmatch(resource)


def pods(doc: Document) -> list[Pod]:
    """Every pod template of an object."""
    if doc.kind in _NOT_PODS:
        return []
    return [_pod(doc, path) for path in _templates(doc.tree.value, ())]


def _templates(value: object, path: Path) -> Iterator[Path]:
    if isinstance(value, dict):
        if isinstance(dig(value, "spec", "containers"), list):
            yield path
            return
        for key, item in value.items():
            if isinstance(item, dict | list):
                yield from _templates(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _templates(item, (*path, number))


def _pod(doc: Document, path: Path) -> Pod:
    at: Path = (*path, "metadata", "annotations", NETWORKS)
    written = doc.get(*at)
    text = written if isinstance(written, str) else ""
    annotation = json_text(doc.tree, at, text) if text.strip() and set(text) & set('[{"') else None
    networks = _from_json(annotation) if annotation else _from_commas(doc.tree, at, text)
    template = Pod(doc, path, annotation, tuple(networks), ())
    asked = [one for at_, container in template.containers(init=True) for one in _asked(at_, container)]
    return template._replace(resources=tuple(asked))


def _from_json(annotation: JsonText) -> Iterator[Wanted]:
    if annotation.tree is None:
        return
    for number, item in mappings(annotation.tree.value):
        name, namespace, interface = (item.get(key) or "" for key in ("name", "namespace", "interface"))
        if all(isinstance(part, str) for part in (name, namespace, interface)):
            yield Wanted(name, namespace, interface, annotation.tree, (number, "name"))


def _from_commas(tree: Tree, path: Path, text: str) -> Iterator[Wanted]:
    for item in filter(None, map(str.strip, text.split(","))):
        where, _, interface = item.partition("@")
        namespace, _, name = where.rpartition("/")
        yield Wanted(name, namespace, interface, tree, path)


def _asked(path: Path, container: dict[str, Any]) -> Iterator[Asked]:
    limits, requests = dig(container, "resources", "limits"), dig(container, "resources", "requests")
    names = dict.fromkeys(
        [*(limits if isinstance(limits, dict) else ()), *(requests if isinstance(requests, dict) else ())]
    )
    for name in names:
        if name not in CORE_RESOURCES and not name.startswith("hugepages-") and "/" in name:
            part = "limits" if isinstance(limits, dict) and name in limits else "requests"
            yield Asked(name, dig(container, "resources", part, name), path, (*path, "resources", part, name))
