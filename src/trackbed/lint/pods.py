"""Pod templates at any depth: in a Pod, a Job, a PyTorchJob, a runtime of Trainer.

Every job API nests the same structure (metadata beside a spec with containers), so templates are found by structure.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from trackbed.fabric.model.problems import Path
from trackbed.lint.document import NETWORKS, Document
from trackbed.lint.jsontext import JsonText, read_json_text
from trackbed.lint.tree import Tree, dig, list_mappings

_NOT_PODS = {"CustomResourceDefinition", "ConfigMap", "Secret"}
CORE_RESOURCES = {"cpu", "memory", "ephemeral-storage", "storage", "pods"}
_GPU = re.compile(r"(?:nvidia\.com/(?:gpu|pgpu|mig-.*)|amd\.com/gpu|.*/gpu(?:\.shared)?)$")
_NIC_PREFIXES = ("nvidia.com", "openshift.io", "spidernet.io", "intel.com", "mellanox.com", "rdma", "k8s.cni.cncf.io")


class NetworkRequest(NamedTuple):
    """A network that a pod requests."""

    name: str
    namespace: str
    """Empty for the pod's namespace."""
    interface: str
    tree: Tree
    path: Path
    """Path of the name in `tree`."""


class ResourceRequest(NamedTuple):
    """An extended resource of a container."""

    name: str
    amount: object
    container: Path
    path: Path
    """Path of the limit, or of the request if there is no limit."""


class PodTemplate(NamedTuple):
    """A pod template."""

    doc: Document
    path: Path
    """Path of the mapping that holds metadata and spec."""
    annotation: JsonText | None
    """The networks annotation, if it is JSON."""
    networks: tuple[NetworkRequest, ...]
    resources: tuple[ResourceRequest, ...]
    """Extended resources, that is without cpu, memory and huge pages."""

    @property
    def namespace(self) -> str:
        """Namespace of the pods."""
        return self.doc.effective_namespace

    def get(self, *path: str | int) -> Any:  # noqa: ANN401 - YAML holds anything
        """Return the value at `path` of the template, or None."""
        return self.doc.get(*self.path, *path)

    def get_annotations(self) -> dict[str, Any]:
        """Return the annotations of the pods."""
        return self.doc.get_mapping(*self.path, "metadata", "annotations")

    def list_containers(self, *, init: bool = False) -> list[tuple[Path, dict[str, Any]]]:
        """Return the containers with their paths in the document; with `init`, init containers too."""
        names = ("containers", "initContainers") if init else ("containers",)
        return [
            ((*self.path, "spec", name, number), container)
            for name in names
            for number, container in list_mappings(self.get("spec", name))
        ]

    def list_nics(self) -> list[ResourceRequest]:
        """Return the requests for NICs."""
        return [request for request in self.resources if is_nic(request.name)]

    def count_gpus(self) -> int:
        """Return the number of GPUs of a pod."""
        amounts = [request.amount for request in self.resources if _GPU.fullmatch(request.name)]
        return sum(amount for amount in amounts if isinstance(amount, int))


def is_nic(resource: str) -> bool:
    """Return whether SR-IOV, host device or shared RDMA plugins advertise resources of this name."""
    return resource.startswith(tuple(f"{prefix}/" for prefix in _NIC_PREFIXES)) and not _GPU.fullmatch(resource)


def find_pods(doc: Document) -> list[PodTemplate]:
    """Return the pod templates of an object."""
    if doc.kind in _NOT_PODS:
        return []
    return [_read_template(doc, path) for path in _find_templates(doc.tree.value, ())]


def _find_templates(value: object, path: Path) -> Iterator[Path]:
    if isinstance(value, dict):
        if isinstance(dig(value, "spec", "containers"), list):
            yield path
            return
        for key, item in value.items():
            if isinstance(item, dict | list):
                yield from _find_templates(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _find_templates(item, (*path, number))


def _read_template(doc: Document, path: Path) -> PodTemplate:
    annotation_path: Path = (*path, "metadata", "annotations", NETWORKS)
    text = doc.get_text(*annotation_path)
    annotation = read_json_text(doc.tree, annotation_path, text) if text.strip() and set(text) & set('[{"') else None
    networks = (
        _parse_json_networks(annotation) if annotation else _parse_comma_networks(doc.tree, annotation_path, text)
    )
    template = PodTemplate(doc, path, annotation, tuple(networks), ())
    containers = template.list_containers(init=True)
    requests = tuple(request for place, container in containers for request in _read_resources(place, container))
    return template._replace(resources=requests)


def _parse_json_networks(annotation: JsonText) -> Iterator[NetworkRequest]:
    if annotation.tree is None:
        return
    for number, item in list_mappings(annotation.tree.value):
        name, namespace, interface = (item.get(key) or "" for key in ("name", "namespace", "interface"))
        if all(isinstance(part, str) for part in (name, namespace, interface)):
            yield NetworkRequest(name, namespace, interface, annotation.tree, (number, "name"))


def _parse_comma_networks(tree: Tree, path: Path, text: str) -> Iterator[NetworkRequest]:
    for item in filter(None, map(str.strip, text.split(","))):
        full_name, _, interface = item.partition("@")
        namespace, _, name = full_name.rpartition("/")
        yield NetworkRequest(name, namespace, interface, tree, path)


def _read_resources(path: Path, container: dict[str, Any]) -> Iterator[ResourceRequest]:
    limits, requests = dig(container, "resources", "limits"), dig(container, "resources", "requests")
    names = dict.fromkeys(
        [*(limits if isinstance(limits, dict) else ()), *(requests if isinstance(requests, dict) else ())]
    )
    for name in names:
        if name not in CORE_RESOURCES and not name.startswith("hugepages-") and "/" in name:
            section = "limits" if isinstance(limits, dict) and name in limits else "requests"
            yield ResourceRequest(
                name, dig(container, "resources", section, name), path, (*path, "resources", section, name)
            )
