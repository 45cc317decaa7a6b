"""The custom resource definitions of Trackbed: Fabric and RailNode, both cluster-scoped.

One version, v1alpha1, served and stored. The conversion story: fields are only ever added within a version; a version
that says something otherwise is served beside this one for two releases, with a webhook that converts both ways without
loss, and stored objects are rewritten by the chart's upgrade before the old version goes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from trackbed.cluster.resources.fabric import FabricStatus
from trackbed.cluster.resources.railnode import HEALTHY, OFFERED, PREPARED, ROLLED, RailNodeSpec, RailNodeStatus
from trackbed.cluster.resources.schema import schema
from trackbed.cluster.stacks.objects import Manifest, manifest
from trackbed.fabric.model.schema import fabric_spec
from trackbed.fabric.yaml_text import render_documents

GROUP = "trackbed.dev"
VERSION = "v1alpha1"

_Column = tuple[str, str, str]
"""Title, type, JSON path."""

_AGE: _Column = ("Age", "date", ".metadata.creationTimestamp")


def _condition(kind: str, field: str) -> str:
    return f'.status.conditions[?(@.type=="{kind}")].{field}'


_FABRIC_COLUMNS: tuple[_Column, ...] = (
    ("Nodes", "integer", ".status.nodes"),
    ("Sound", "integer", ".status.sound"),
    ("Changing", "integer", ".status.changing"),
    ("Waiting", "integer", ".status.waiting"),
    ("Failed", "integer", ".status.failed"),
    ("Absent", "integer", ".status.absent"),
    ("Offered", "integer", ".status.offered"),
    ("State", "string", _condition("Progressing", "reason")),
    ("Why", "string", _condition("Progressing", "message")),
    _AGE,
)
_RAILNODE_COLUMNS: tuple[_Column, ...] = (
    ("Fabric", "string", ".spec.fabric"),
    ("Slot", "integer", ".spec.slot"),
    ("Stage", "string", _condition(ROLLED, "reason")),
    ("Since", "date", _condition(ROLLED, "lastTransitionTime")),
    ("Host", "string", _condition(PREPARED, "reason")),
    ("Rails", "string", _condition(OFFERED, "reason")),
    ("Healthy", "string", _condition(HEALTHY, "status")),
    ("Why", "string", _condition(ROLLED, "message")),
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


def crds() -> Iterator[Manifest]:
    """Both definitions."""
    fabric = {"description": "The Fabric: what is wanted.", "spec": fabric_spec(), "status": schema(FabricStatus)}
    yield _crd("Fabric", "fabrics", _FABRIC_COLUMNS, fabric, [_FABRIC_NAME])
    spec = {**schema(RailNodeSpec), "x-kubernetes-validations": [_SAME_FABRIC]}
    node = {"description": "One node of a Fabric.", "spec": spec, "status": schema(RailNodeStatus)}
    yield _crd("RailNode", "railnodes", _RAILNODE_COLUMNS, node, [])


def _crd(
    kind: str, plural: str, columns: tuple[_Column, ...], told: dict[str, Any], rules: list[dict[str, str]]
) -> Manifest:
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": n, "type": t, "jsonPath": path} for n, t, path in columns],
        "schema": {"openAPIV3Schema": _root(told, rules)},
    }
    spec = {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]}
    return manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.{GROUP}", spec=spec)


def _root(told: dict[str, Any], rules: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "type": "object",
        "description": told["description"],
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": told["spec"],
            "status": told["status"],
        },
        **({"x-kubernetes-validations": rules} if rules else {}),
    }


if __name__ == "__main__":  # scripts/docs
    sys.stdout.writelines(render_documents(crds()))
