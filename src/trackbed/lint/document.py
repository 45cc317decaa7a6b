"""One Kubernetes object of the input, and the JSON texts inside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trackbed.fabric.model.problems import Path
from trackbed.lint.jsontext import JsonText, json_text
from trackbed.lint.tree import Tree, mappings, texts

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
    """One object. Fields of the wrong type read as empty: the schema reports them, no rule stumbles."""

    tree: Tree
    kind: str
    api_version: str
    name: str
    namespace: str
    """As written; empty where it is left out."""
    json: dict[Path, JsonText]
    """The JSON texts inside, by path."""

    @property
    def group(self) -> str:
        """API group, empty for the core."""
        return self.api_version.rpartition("/")[0]

    @property
    def title(self) -> str:
        """Kind and name, as people call it."""
        return f"{self.kind} {self.name}" if self.name else self.kind

    @property
    def home(self) -> str:
        """The namespace it lands in when none is written and kubectl's is the default."""
        return self.namespace or "default"

    def get(self, *path: str | int) -> Any:  # noqa: ANN401 - YAML holds anything
        """The value at `path`, None where there is none."""
        return self.tree.get(*path)

    def text(self, *path: str | int) -> str:
        """The text at `path`, empty where there is none."""
        value = self.tree.get(*path)
        return value if isinstance(value, str) else ""

    def mapping(self, *path: str | int) -> dict[str, Any]:
        """The mapping at `path`, empty where there is none."""
        value = self.tree.get(*path)
        return value if isinstance(value, dict) else {}

    def parsed(self, *path: str | int) -> Tree | None:
        """What the JSON text at `path` says."""
        found = self.json.get(path)
        return found.tree if found else None


def document(tree: Tree) -> Document:
    """The object that `tree` holds (a mapping)."""

    def text(*path: str) -> str:
        value = tree.get(*path)
        return value if isinstance(value, str) else ""

    kind = text("kind")
    found = _json_fields(kind, tree)
    return Document(tree, kind, text("apiVersion"), text("metadata", "name"), text("metadata", "namespace"), found)


def _json_fields(kind: str, tree: Tree) -> dict[Path, JsonText]:
    paths = list(JSON_FIELDS.get(kind, ()))
    if kind == "SpiderMultusConfig":
        paths += [("spec", "chainCNIJsonData", n) for n, _ in texts(tree.get("spec", "chainCNIJsonData"))]
    if kind == "SpectrumXRailPoolConfig":
        paths += [("spec", "railTopology", n, "ipam") for n, _ in mappings(tree.get("spec", "railTopology"))]
    found: dict[Path, JsonText] = {}
    for path in paths:
        text = tree.get(*path)
        if isinstance(text, str) and text.strip():
            found[path] = json_text(tree, path, text, joined=path[-1] == "metaPlugins")
    return found
