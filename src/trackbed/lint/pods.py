"""Pod templates at any depth of an object: a Pod, a Job, a PyTorchJob, a runtime of Kubeflow Trainer.

Every job API nests the same structure (metadata, and a spec with containers), so templates are found by structure. Some
APIs, such as KServe's and Argo's, hold the spec alone, or one container.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from trackbed.fabric.gpus import is_gpu_resource
from trackbed.fabric.model.problems import Path
from trackbed.fabric.quantities import parse_whole
from trackbed.lint.document import NETWORKS, Document
from trackbed.lint.jsontext import JsonText, parse_json_text
from trackbed.lint.tree import Tree, dig, enumerate_mappings

_NOT_PODS = {"CustomResourceDefinition", "ConfigMap", "Secret"}
CORE_RESOURCES = {"cpu", "memory", "ephemeral-storage", "storage", "pods"}
_NOT_NIC = re.compile(
    r"[vp]?gpu(?:-?(?:mem|core)[\w-]*)?|(?:mig|cuda|qat|dsa|dlb|iaa|sgx|fpga|i915|xe|vpu|npu|tpu)\b.*"
)
"""Devices of the same vendors that are no NICs; HAMi, for one, adds nvidia.com/gpumem and gpucores."""
_NIC_PREFIXES = ("nvidia.com", "openshift.io", "spidernet.io", "intel.com", "mellanox.com", "rdma", "k8s.cni.cncf.io")


class NetworkRequest(NamedTuple):
    """A secondary network that a pod requests in its networks annotation."""

    name: str
    namespace: str
    """Namespace of the network; empty for that of the pod."""
    interface: str
    tree: Tree
    path: Path
    """Path of the name in `tree`."""


class ResourceRequest(NamedTuple):
    """The request of a container for an extended resource."""

    name: str
    amount: object
    container: Path
    path: Path
    """Path of the limit, or of the request if there is no limit."""

    @property
    def number(self) -> int | None:
        """The amount as a whole number, in any form of a quantity; None if it is none."""
        return parse_whole(str(self.amount))


class PodTemplate(NamedTuple):
    """A pod template, with the networks and extended resources that it requests."""

    doc: Document
    path: Path
    """Path of the mapping that holds metadata and spec."""
    annotation: JsonText | None
    """The networks annotation; None if it is not in its JSON form."""
    networks: tuple[NetworkRequest, ...]
    resources: tuple[ResourceRequest, ...]
    """Requests for extended resources, which are all but CPU, memory, storage and huge pages."""
    is_bare: bool = False
    """Whether `path` leads to a pod spec, without metadata and spec around it."""

    @property
    def namespace(self) -> str:
        """Namespace of the pods that the template creates."""
        return self.doc.effective_namespace

    def get(self, *path: str | int) -> Any:  # noqa: ANN401 - a YAML value has any type
        """Return the value at `path` of the template, or None."""
        if self.is_bare and path[:1] != ("spec",):
            return None
        return self.doc.get(*self.locate(*path))

    def locate(self, *path: str | int) -> Path:
        """Return the path in the document of `path`, which begins with spec or metadata."""
        return (*self.path, *path[1:]) if self.is_bare else (*self.path, *path)

    def get_annotations(self) -> dict[str, Any]:
        """Return the annotations of the template."""
        return {} if self.is_bare else self.doc.get_mapping(*self.path, "metadata", "annotations")

    def list_containers(self, *, init: bool = False) -> list[tuple[Path, dict[str, Any]]]:
        """Return the containers with their paths in the document; with `init`, init containers too."""
        names = ("containers", "initContainers") if init else ("containers",)
        containers = [
            (self.locate("spec", name, number), container)
            for name in names
            for number, container in enumerate_mappings(self.get("spec", name))
        ]
        single = self.get("spec", "container") if self.is_bare else None
        return [*containers, (self.locate("spec", "container"), single)] if isinstance(single, dict) else containers

    def list_nic_requests(self) -> list[ResourceRequest]:
        """Return the requests for resources that are NICs."""
        return [request for request in self.resources if is_nic_resource(request.name)]

    def count_gpus(self) -> int:
        """Return the number of GPUs that a pod requests."""
        return sum(request.number or 0 for request in self.resources if is_gpu_resource(request.name))


def is_nic_resource(resource: str) -> bool:
    """Return whether a resource of this name is a NIC, of an SR-IOV, host device or shared RDMA plugin."""
    prefix, _, name = resource.partition("/")
    return prefix in _NIC_PREFIXES and not is_gpu_resource(resource) and not _NOT_NIC.fullmatch(name)


def find_pod_templates(doc: Document) -> list[PodTemplate]:
    """Return the pod templates in an object."""
    if doc.kind in _NOT_PODS:
        return []
    return [_read_template(doc, path, is_bare=is_bare) for path, is_bare in _iter_template_paths(doc.tree.value, ())]


def _iter_template_paths(value: object, path: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the paths of pod templates and of bare pod specs, the latter with True."""
    if isinstance(value, dict):
        if isinstance(dig(value, "spec", "containers"), list):
            yield path, False
            return
        if _is_pod_spec(value):
            yield path, True
        for key, item in value.items():
            if isinstance(item, dict | list):
                yield from _iter_template_paths(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _iter_template_paths(item, (*path, number))


def _is_pod_spec(value: dict[str, Any]) -> bool:
    """Return whether a mapping has containers, or one container with an image, as steps of a workflow have."""
    containers = [container for _, container in enumerate_mappings(value.get("containers"))]
    single = value.get("container")
    return any("name" in container or "image" in container for container in containers) or (
        isinstance(single, dict) and isinstance(single.get("image"), str)
    )


def _read_template(doc: Document, path: Path, *, is_bare: bool) -> PodTemplate:
    template = PodTemplate(doc, path, None, (), (), is_bare)
    if not is_bare:
        annotation_path = template.locate("metadata", "annotations", NETWORKS)
        text = doc.get_text(*annotation_path)
        is_json = bool(text.strip() and set(text) & set('[{"'))
        annotation = parse_json_text(doc.tree, annotation_path, text) if is_json else None
        networks = (
            _iter_json_networks(annotation) if annotation else _iter_comma_networks(doc.tree, annotation_path, text)
        )
        template = template._replace(annotation=annotation, networks=tuple(networks))
    containers = template.list_containers(init=True)
    requests = tuple(
        request for place, container in containers for request in _iter_resource_requests(place, container)
    )
    return template._replace(resources=requests)


def _iter_json_networks(annotation: JsonText) -> Iterator[NetworkRequest]:
    if annotation.tree is None:
        return
    for number, item in enumerate_mappings(annotation.tree.value):
        name, namespace, interface = (item.get(key) or "" for key in ("name", "namespace", "interface"))
        if all(isinstance(part, str) for part in (name, namespace, interface)):
            yield NetworkRequest(name, namespace, interface, annotation.tree, (number, "name"))


def _iter_comma_networks(tree: Tree, path: Path, text: str) -> Iterator[NetworkRequest]:
    for item in filter(None, map(str.strip, text.split(","))):
        full_name, _, interface = item.partition("@")
        namespace, _, name = full_name.rpartition("/")
        yield NetworkRequest(name, namespace, interface, tree, path)


def _iter_resource_requests(container_path: Path, container: dict[str, Any]) -> Iterator[ResourceRequest]:
    limits, requests = dig(container, "resources", "limits"), dig(container, "resources", "requests")
    names = dict.fromkeys(
        [*(limits if isinstance(limits, dict) else ()), *(requests if isinstance(requests, dict) else ())]
    )
    for name in names:
        if name not in CORE_RESOURCES and not name.startswith("hugepages-") and "/" in name:
            section = "limits" if isinstance(limits, dict) and name in limits else "requests"
            yield ResourceRequest(
                name,
                dig(container, "resources", section, name),
                container_path,
                (*container_path, "resources", section, name),
            )
