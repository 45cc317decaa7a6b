"""Kubernetes objects as plain dicts, with fields in the usual order.

Objects of kinds that several stacks use are built here, those of a single stack in its module.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

Manifest = dict[str, Any]
"""A Kubernetes object: apiVersion, kind, metadata, and the sections of its kind, such as spec."""


def build_manifest(  # noqa: PLR0913 - metadata has these parts
    api_version: str,
    kind: str,
    name: str,
    namespace: str | None = None,
    *,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **sections: Any,  # noqa: ANN401 - spec, data, status: every kind has its own shape
) -> Manifest:
    """Return a Kubernetes object; it is cluster-scoped if the namespace is None. Sections that are None are omitted."""
    metadata: dict[str, Any] = {"name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    present = {section: value for section, value in sections.items() if value is not None}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **present}


def drop_none(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - a field holds anything
    """Return a dict of the keyword arguments that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def to_json_text(value: object) -> str:
    """Return indented JSON for a string field; it ends with a newline, so that YAML renders it as a block scalar."""
    return _FLAT_LIST.sub(_fold_list, json.dumps(value, indent=2)) + "\n"


_FLAT_LIST = re.compile(r"\[\n\s+([^\[\]{}]*?)\n\s+\]")
"""A list of scalars in indented JSON, with an item on each line."""


def _fold_list(match: re.Match[str]) -> str:
    return "[" + re.sub(r"\n\s+", " ", match[1]) + "]"


def build_network_attachment(
    name: str, namespace: str, cni_config: Mapping[str, Any], resource_name: str | None = None
) -> Manifest:
    """Return a NetworkAttachmentDefinition (Network Plumbing Working Group, specification 1.3)."""
    annotations = {"k8s.v1.cni.cncf.io/resourceName": resource_name} if resource_name else None
    spec = {"config": to_json_text(cni_config)}
    return build_manifest(
        "k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", name, namespace, annotations=annotations, spec=spec
    )
