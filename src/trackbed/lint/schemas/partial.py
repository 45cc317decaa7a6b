"""Partial objects: patches of Kustomize, which name an object and hold only the fields that they change."""

from collections.abc import Iterable

from trackbed.fabric.model.problems import Path
from trackbed.lint.document import Document
from trackbed.lint.schemas.convert import Schema
from trackbed.lint.schemas.shipped import is_built_in
from trackbed.lint.tree import enumerate_mappings

_MERGE_KEY = "name"
_SEVERAL = 2


def is_partial(doc: Document, missing: Iterable[tuple[Path, Schema]]) -> bool:
    """Return whether an object of Kubernetes that lacks required fields is a patch.

    `missing` holds each mapping that lacks fields with its schema. A patch has none of several required fields, or a
    selector and no image in its pod template.
    """
    if not is_built_in(doc.group):
        return False
    if doc.group == "apps" and doc.get("spec", "selector") is None and not _has_image(doc):
        return True
    return any(_has_none(doc.get_mapping(*path), schema) for path, schema in missing)


def _has_none(mapping: dict[str, object], schema: Schema) -> bool:
    needed = {name for name in schema.get("required", ()) if name != _MERGE_KEY}
    return len(needed) >= _SEVERAL and not needed & mapping.keys()


def _has_image(doc: Document) -> bool:
    containers = enumerate_mappings(doc.get("spec", "template", "spec", "containers"))
    return any(container.get("image") for _, container in containers)
