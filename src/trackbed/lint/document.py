"""A Kubernetes object of the input with the JSON texts it contains."""

from dataclasses import dataclass
from typing import Any

from trackbed.fabric.model.problems import Path
from trackbed.lint.jsontext import JsonText, read_json_text
from trackbed.lint.tree import Tree, list_mappings, list_texts

NETWORKS = "k8s.v1.cni.cncf.io/networks"
"""The annotation that names a pod's additional networks (Multus, k8snetworkplumbingwg's de facto standard)."""
RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
"""The annotation of a NetworkAttachmentDefinition that names the device plugin's resource."""

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
"""Kind -> fields that hold JSON as text."""


@dataclass(frozen=True, slots=True)
class Document:
    """An object of the input. Fields of the wrong type read as empty: schema checks report them, rules ignore them."""

    tree: Tree
    kind: str
    api_version: str
    name: str
    namespace: str
    """Empty if the object names none."""
    json: dict[Path, JsonText]
    """JSON texts by path."""

    @property
    def group(self) -> str:
        """API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def title(self) -> str:
        """Kind and name, for messages."""
        return f"{self.kind} {self.name}" if self.name else self.kind

    @property
    def effective_namespace(self) -> str:
        """The object's namespace, or `default`."""
        return self.namespace or "default"

    def get(self, *path: str | int) -> Any:  # noqa: ANN401 - YAML holds anything
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
        """Return the content of the JSON text at `path`, or None."""
        get_text = self.json.get(path)
        return get_text.tree if get_text else None


def to_document(tree: Tree) -> Document:
    """Make a document of `tree`, which must hold a mapping."""
    paths = (("kind",), ("apiVersion",), ("metadata", "name"), ("metadata", "namespace"))
    kind, api_version, name, namespace = (value if isinstance(value := tree.get(*path), str) else "" for path in paths)
    return Document(tree, kind, api_version, name, namespace, _read_json_fields(kind, tree))


def _read_json_fields(kind: str, tree: Tree) -> dict[Path, JsonText]:
    paths = list(JSON_FIELDS.get(kind, ()))
    if kind == "SpiderMultusConfig":
        paths += [("spec", "chainCNIJsonData", n) for n, _ in list_texts(tree.get("spec", "chainCNIJsonData"))]
    if kind == "SpectrumXRailPoolConfig":
        paths += [("spec", "railTopology", n, "ipam") for n, _ in list_mappings(tree.get("spec", "railTopology"))]
    fields: dict[Path, JsonText] = {}
    for path in paths:
        text = tree.get(*path)
        if isinstance(text, str) and text.strip():
            fields[path] = read_json_text(tree, path, text, joined=path[-1] == "metaPlugins")
    return fields
