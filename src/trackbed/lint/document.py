"""A Kubernetes object of the input with the JSON texts it contains."""

from dataclasses import dataclass
from typing import Any

from trackbed.fabric.model.problems import Path
from trackbed.lint.jsontext import JsonText, parse_json_text
from trackbed.lint.tree import Tree, enumerate_mappings, enumerate_texts

NETWORKS = "k8s.v1.cni.cncf.io/networks"
"""The annotation that names a pod's additional networks (Multus, k8snetworkplumbingwg's de facto standard)."""
RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
"""The annotation of a NetworkAttachmentDefinition that names the device plugin's resource."""
INJECT = ("cni.spidernet.io/rdma-resource-inject", "cni.spidernet.io/network-resource-inject")
"""Annotations that make the webhook of Spiderpool add networks to a pod."""

MANIFEST_ENDINGS = (".yaml", ".yml", ".json")
"""Endings of the names of manifest files."""
JSON_FIELDS: dict[str, tuple[Path, ...]] = {
    "NetworkAttachmentDefinition": (("spec", "config"),),
    "NicClusterPolicy": (
        ("spec", "sriovDevicePlugin", "config"),
        ("spec", "rdmaSharedDevicePlugin", "config"),
        ("spec", "secondaryNetwork", "multus", "config"),
    ),
    "NicNodePolicy": (("spec", "sriovDevicePlugin", "config"), ("spec", "rdmaSharedDevicePlugin", "config")),
    "HostDeviceNetwork": (("spec", "ipam"), ("spec", "metaPlugins")),
    "MacvlanNetwork": (("spec", "ipam"), ("spec", "metaPlugins")),
    "IPoIBNetwork": (("spec", "ipam"), ("spec", "metaPlugins")),
    "SriovNetwork": (("spec", "ipam"), ("spec", "metaPlugins")),
    "SriovIBNetwork": (("spec", "ipam"), ("spec", "metaPlugins")),
    "OVSNetwork": (("spec", "ipam"), ("spec", "metaPlugins")),
    "SpiderMultusConfig": (("spec", "customCNI"),),
}
"""Paths of the fields that hold JSON as text, by kind."""


@dataclass(frozen=True, slots=True)
class Document:
    """An object of the input. Fields of the wrong type read as empty: schema checks report them, rules ignore them."""

    tree: Tree
    kind: str
    api_version: str
    name: str
    namespace: str
    """Namespace of the object; empty if it names none."""
    json: dict[Path, JsonText]

    @property
    def group(self) -> str:
        """API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def title(self) -> str:
        """Kind and name, for messages."""
        return f"{self.kind} {self.name}" if self.name else self.kind

    @property
    def identity(self) -> tuple[str, str, str, str] | None:
        """Kind, group, namespace and name; None if the object has no name."""
        return (self.kind, self.group, self.namespace, self.name) if self.name else None

    @property
    def folder(self) -> str:
        """Folder of the object's file, whose files are applied together; empty for objects of a cluster."""
        folder, _, file = self.tree.source.file.rpartition("/")
        return folder if file.endswith(MANIFEST_ENDINGS) else ""

    @property
    def effective_namespace(self) -> str:
        """The object's namespace, or `default`."""
        return self.namespace or "default"

    def get(self, *path: str | int) -> Any:  # noqa: ANN401 - a YAML value has any type
        """Return the value at `path`, or None."""
        return self.tree.get(*path)

    def get_text(self, *path: str | int) -> str:
        """Return the text at `path`; empty for any other value."""
        value = self.tree.get(*path)
        return value if isinstance(value, str) else ""

    def get_mapping(self, *path: str | int) -> dict[str, Any]:
        """Return the mapping at `path`; empty for any other value."""
        value = self.tree.get(*path)
        return value if isinstance(value, dict) else {}

    def get_json(self, *path: str | int) -> Tree | None:
        """Return the content of the JSON text at `path`; None if there is no valid JSON."""
        text = self.json.get(path)
        return text.tree if text else None


def to_document(tree: Tree) -> Document:
    """Return the document of `tree`, which must hold a mapping."""
    paths = (("kind",), ("apiVersion",), ("metadata", "name"), ("metadata", "namespace"))
    kind, api_version, name, namespace = (value if isinstance(value := tree.get(*path), str) else "" for path in paths)
    return Document(tree, kind, api_version, name, namespace, _read_json_fields(kind, tree))


def _read_json_fields(kind: str, tree: Tree) -> dict[Path, JsonText]:
    paths = list(JSON_FIELDS.get(kind, ()))
    if kind == "SpiderMultusConfig":
        paths += [("spec", "chainCNIJsonData", n) for n, _ in enumerate_texts(tree.get("spec", "chainCNIJsonData"))]
    if kind == "SpectrumXRailPoolConfig":
        paths += [("spec", "railTopology", n, "ipam") for n, _ in enumerate_mappings(tree.get("spec", "railTopology"))]
    fields: dict[Path, JsonText] = {}
    for path in paths:
        text = tree.get(*path)
        if isinstance(text, str) and text.strip():
            fields[path] = parse_json_text(tree, path, text, joined=path[-1] == "metaPlugins")
    return fields
