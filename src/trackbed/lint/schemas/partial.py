"""Partial objects: patches of Kustomize, which hold only the fields that they change, and templates without values.

Objects that are named alone, or with a status, are what a test expects or what is to be deleted.
"""

from collections.abc import Iterable

from trackbed.fabric.model.problems import Path
from trackbed.lint.document import Document
from trackbed.lint.schemas.convert import Schema
from trackbed.lint.schemas.shipped import is_built_in
from trackbed.lint.templates import is_template
from trackbed.lint.tree import enumerate_mappings

_LACKED_BY_PATCHES: dict[str, Path] = {
    **dict.fromkeys(("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"), ("spec", "selector")),
    "Job": ("spec", "template", "spec", "restartPolicy"),
    "HorizontalPodAutoscaler": ("spec", "scaleTargetRef"),
}
"""By kind, a field that an API server refuses an object without, and that no patch needs."""
_NAMED_ALONE = {"apiVersion", "kind", "metadata", "status"}
_MERGE_KEY = "name"
_SEVERAL, _MANY = 2, 5


def is_partial(doc: Document, missing: Iterable[tuple[Path, Schema]]) -> bool:
    """Return whether an object that lacks required fields is a template, or an object of Kubernetes and a patch.

    `missing` holds each mapping that lacks fields with its schema. The name of a template is filled in later. A patch
    has none of several required fields, or lacks both the image of a container and another field that it needs.
    Of objects of others only those are judged so that have none of many: an operator may take one without a spec.
    """
    if is_template(doc.tree):
        return True
    if not is_built_in(doc.group):
        return any(_has_none(doc.get_mapping(*path), schema, _MANY) for path, schema in missing)
    if isinstance(doc.tree.value, dict) and doc.tree.value.keys() <= _NAMED_ALONE:
        return True
    path = _LACKED_BY_PATCHES.get(doc.kind)
    if path and doc.get(*path) is None and not _has_images(doc):
        return True
    return any(_has_none(doc.get_mapping(*path), schema) for path, schema in missing)


def _has_none(mapping: dict[str, object], schema: Schema, least: int = _SEVERAL) -> bool:
    needed = {name for name in schema.get("required", ()) if name != _MERGE_KEY}
    return len(needed) >= least and not needed & mapping.keys()


def _has_images(doc: Document) -> bool:
    containers = [container for _, container in enumerate_mappings(doc.get("spec", "template", "spec", "containers"))]
    return bool(containers) and all("image" in container for container in containers)
