"""Pod templates of custom kinds whose CRD is in the same file: found by the CRD's schema instead of by their shape.

The schema says where pods may be, and which mapping around a pod spec without metadata holds the pods' annotations.
"""

from collections.abc import Iterator, MutableMapping, MutableSequence, Sequence
from typing import Any

from trackbed.cluster.jobs.kinds.kind import Template
from trackbed.cluster.jobs.kinds.pod_specs import extend_role, get_item_title, view_pod_spec
from trackbed.cluster.jobs.template import Mapping

_CONTAINER_FIELDS = {"name", "image", "resources"}
"""Fields of a container that tell it from other lists called `containers`, such as patches of containers."""

PodSchemas = dict[tuple[str, str], Mapping]
"""apiVersion and kind -> schema."""
_Holder = tuple[Mapping, str] | None
"""A mapping with a field `annotations`, and its path."""


def index_pod_schemas(objects: Sequence[Mapping]) -> PodSchemas:
    """Return the schemas of the CRDs among the objects that have a place for pods."""
    schemas: PodSchemas = {}
    for crd in objects:
        if crd.get("kind") != "CustomResourceDefinition":
            continue
        spec = _get(crd, "spec")
        versions = spec.get("versions")
        for version in versions if isinstance(versions, MutableSequence) else ():
            schema = _get(version, "schema", "openAPIV3Schema")
            if _has_pods(schema):
                schemas[f"{spec.get('group')}/{_get(version).get('name')}", str(_get(spec, "names").get("kind"))] = (
                    schema
                )
    return schemas


def find_templates_by_schema(manifest: Mapping, schema: Mapping, gpu_resource: str) -> Iterator[Template]:
    """Yield the pod templates and pod specs with GPUs at the places that a schema has for pods."""
    for template in _walk(manifest, schema, "", "", None):
        if template.uses_gpus(gpu_resource):
            yield template


def _walk(value: Any, schema: Mapping, path: str, role: str, holder: _Holder) -> Iterator[Template]:  # noqa: ANN401 - YAML holds anything
    fields = _get(schema, "properties")
    if isinstance(value, MutableSequence):
        for index, item in enumerate(value):
            title = get_item_title(item) or role
            yield from _walk(item, _get(schema, "items"), f"{path}[{index}]", title, holder)
    elif isinstance(value, MutableMapping):
        if path and _get(fields, "annotations").get("type") == "object":
            holder = value, path
        if path and "metadata" in fields and _is_pod_spec(_get(fields, "spec")):
            if isinstance(value.get("spec"), MutableMapping):
                yield Template(path, value, gets_rails=True, role=role)
        elif _is_pod_spec(schema):
            annotated, annotated_path = holder or ({}, path)
            template = view_pod_spec(value, annotated, path, annotated_path, role)
            yield template._replace(takes_annotations=holder is not None)
        else:
            for key, item in value.items():
                part = fields.get(key) or schema.get("additionalProperties")
                yield from _walk(item, _get(part), f"{path}.{key}".lstrip("."), extend_role(role, key), holder)


def _has_pods(schema: Mapping) -> bool:
    parts = [*_get(schema, "properties").values(), schema.get("items"), schema.get("additionalProperties")]
    return _is_pod_spec(schema) or any(_has_pods(part) for part in parts if isinstance(part, MutableMapping))


def _is_pod_spec(schema: Mapping) -> bool:
    return _get(schema, "properties", "containers", "items", "properties").keys() >= _CONTAINER_FIELDS


def _get(value: Any, *keys: str) -> Mapping:  # noqa: ANN401 - YAML holds anything
    """Return the mapping at `keys`, empty where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, MutableMapping) else None
    return value if isinstance(value, MutableMapping) else {}
