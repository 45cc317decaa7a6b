"""Kubernetes objects as plain values, in the order in which a person would write their fields.

Kinds that several stacks use have a function here; what one stack uses alone stays in that stack's module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

Manifest = dict[str, Any]
"""One object: apiVersion, kind, metadata, and the kind's own sections."""


def manifest(  # noqa: PLR0913 - metadata has these parts
    api_version: str,
    kind: str,
    name: str,
    namespace: str | None = None,
    *,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **sections: Any,  # noqa: ANN401 - spec, data, status: every kind has its own shape
) -> Manifest:
    """An object; a cluster-scoped one has no namespace. Sections that are None are left out."""
    metadata: dict[str, Any] = {"name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    present = {section: value for section, value in sections.items() if value is not None}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **present}


def without_none(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - a field holds anything
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def json_text(value: object) -> str:
    """JSON for a field that holds a configuration as text: whole lines, so that YAML shows it as a block."""
    return _FLAT_LIST.sub(_on_one_line, json.dumps(value, indent=2)) + "\n"


_FLAT_LIST = re.compile(r"\[\n\s+([^\[\]{}]*?)\n\s+\]")
"""A list of scalars, as json writes it: one a line."""


def _on_one_line(found: re.Match[str]) -> str:
    return "[" + re.sub(r"\n\s+", " ", found[1]) + "]"


def network_attachment(name: str, namespace: str, config: Mapping[str, Any], resource: str | None = None) -> Manifest:
    """A NetworkAttachmentDefinition (Network Plumbing Working Group, multi-network specification 1.3)."""
    annotations = {"k8s.v1.cni.cncf.io/resourceName": resource} if resource else None
    spec = {"config": json_text(config)}
    return manifest(
        "k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", name, namespace, annotations=annotations, spec=spec
    )
