"""The custom resource definitions of Trackbed: Fabric and RailNode, both cluster-scoped.

One version, v1alpha1, is served and stored. Within a version, fields are only added. An incompatible version is served
beside this one for two releases. A webhook converts both ways without loss, and the chart's upgrade rewrites stored
objects before the old version goes.
"""

from collections.abc import Iterator
from typing import Any

from tools.pages.fabric_schema import derive_fabric_schema
from tools.pages.struct_schema import derive_schema
from trackbed.cluster.resources.fabric import CONSISTENT, FabricStatus
from trackbed.cluster.resources.node_report import NodeReport
from trackbed.cluster.resources.railnode import HEALTHY, OFFERED, PREPARED, ROLLED, RailNodeSpec, RailNodeStatus
from trackbed.cluster.stacks.objects import Manifest, build_manifest

GROUP = "trackbed.dev"
VERSION = "v1alpha1"

_Column = tuple[str, str, str]
"""Title, type, JSON path."""

_AGE: _Column = ("Age", "date", ".metadata.creationTimestamp")


def _format_condition_path(kind: str, field: str) -> str:
    return f'.status.conditions[?(@.type=="{kind}")].{field}'


_FABRIC_COLUMNS: tuple[_Column, ...] = (
    ("Nodes", "integer", ".status.nodes"),
    ("Sound", "integer", ".status.sound"),
    ("Changing", "integer", ".status.changing"),
    ("Waiting", "integer", ".status.waiting"),
    ("Failed", "integer", ".status.failed"),
    ("Absent", "integer", ".status.absent"),
    ("Offered", "integer", ".status.offered"),
    ("Consistent", "string", _format_condition_path(CONSISTENT, "status")),
    ("State", "string", _format_condition_path("Progressing", "reason")),
    ("Why", "string", _format_condition_path("Progressing", "message")),
    _AGE,
)
_RAILNODE_COLUMNS: tuple[_Column, ...] = (
    ("Fabric", "string", ".spec.fabric"),
    ("Slot", "integer", ".spec.slot"),
    ("Stage", "string", _format_condition_path(ROLLED, "reason")),
    ("Since", "date", _format_condition_path(ROLLED, "lastTransitionTime")),
    ("Host", "string", _format_condition_path(PREPARED, "reason")),
    ("Rails", "string", _format_condition_path(OFFERED, "reason")),
    ("Healthy", "string", _format_condition_path(HEALTHY, "status")),
    ("Why", "string", _format_condition_path(ROLLED, "message")),
    _AGE,
)
_FABRIC_NAME = {
    "rule": "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",
    "message": "a fabric's name is a DNS label: lower case letters, digits and '-', at most 63 (RFC 1123)",
}
_SAME_FABRIC = {
    "rule": "!has(oldSelf.fabric) || self.fabric == oldSelf.fabric && self.slot == oldSelf.slot",
    "message": "fabric and slot of a node stay: its addresses follow from them; delete the RailNode to free them",
}


def iter_crds() -> Iterator[Manifest]:
    """Yield both definitions."""
    fabric = {
        "description": "The Fabric: what is wanted.",
        "spec": derive_fabric_schema(),
        "status": derive_schema(FabricStatus),
    }
    yield _render_crd("Fabric", "fabrics", _FABRIC_COLUMNS, fabric, [_FABRIC_NAME])
    spec = {**derive_schema(RailNodeSpec), "x-kubernetes-validations": [_SAME_FABRIC]}
    status = derive_schema(RailNodeStatus)
    status["properties"]["report"] = derive_schema(NodeReport)  # agents read it as any object, of any version
    node = {"description": "One node of a Fabric.", "spec": spec, "status": status}
    yield _render_crd("RailNode", "railnodes", _RAILNODE_COLUMNS, node, [])


def _render_crd(
    kind: str, plural: str, columns: tuple[_Column, ...], properties: dict[str, Any], rules: list[dict[str, str]]
) -> Manifest:
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": n, "type": t, "jsonPath": path} for n, t, path in columns],
        "schema": {"openAPIV3Schema": _render_root(properties, rules)},
    }
    spec = {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]}
    return build_manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.{GROUP}", spec=spec)


def _render_root(properties: dict[str, Any], rules: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "type": "object",
        "description": properties["description"],
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": properties["spec"],
            "status": properties["status"],
        },
        **({"x-kubernetes-validations": rules} if rules else {}),
    }
