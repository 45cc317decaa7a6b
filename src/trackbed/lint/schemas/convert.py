"""A CRD's openAPIV3Schema as a JSON schema (draft 7) that refuses what a strict API server refuses.

Follows the structural schemas of apiextensions.k8s.io/v1: a field that is not declared is an error
(fieldValidation=Strict) unless x-kubernetes-preserve-unknown-fields keeps it. CEL rules are not evaluated.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_KEPT = frozenset(
    [
        "type",
        "required",
        "enum",
        "pattern",
        "minimum",
        "maximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
    ]
)
_INT32 = (-(1 << 31), (1 << 31) - 1)
_OBJECT_FIELDS: dict[str, Schema] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object"},
}


def convert(schema: Schema) -> Schema:
    """The schema of a whole object."""
    made = _structural(schema)
    made["properties"] = {**made.get("properties", {}), **_OBJECT_FIELDS}
    made.get("properties", {}).pop("status", None)
    if made.get("additionalProperties") is False:
        made["properties"]["status"] = {}  # written by controllers; a manifest that carries one is an export
    return made


def _structural(schema: Schema) -> Schema:
    made = _value(schema)
    if "properties" in schema:
        needed = schema.get("required", ())
        made["properties"] = {
            name: _structural(part) if name in needed else _optional(part)
            for name, part in schema["properties"].items()
        }
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        made["additionalProperties"] = _optional(extra)
    elif extra is None and schema.get("type") == "object" and not _keeps_unknown(schema):
        made["additionalProperties"] = False
    if isinstance(schema.get("items"), dict):
        made["items"] = _structural(schema["items"])
    if schema.get("x-kubernetes-embedded-resource"):
        made["properties"] = {**_OBJECT_FIELDS, **made.get("properties", {})}
    return made


def _optional(schema: Schema) -> Schema:
    """A property that may be left out: the API server takes null for left out (seen with kube-apiserver 1.36.3)."""
    return _or_null(_structural(schema))


def _or_null(made: Schema) -> Schema:
    kinds = made.get("type", [])
    listed = [kinds] if isinstance(kinds, str) else kinds
    if listed:
        made["type"] = list(dict.fromkeys([*listed, "null"]))
    if "enum" in made and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    return made


def _keeps_unknown(schema: Schema) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def _value(schema: Schema) -> Schema:
    """What holds for the value itself; this is all that may stand under allOf, anyOf, oneOf and not."""
    made = {key: item for key, item in schema.items() if key in _KEPT} | _bounds(schema)
    if schema.get("x-kubernetes-int-or-string"):
        made["type"] = ["integer", "string"]
        schema = {key: item for key, item in schema.items() if key != "anyOf"}
    if schema.get("nullable"):
        made = _or_null(made)
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema:
            made[key] = [_nested(part) for part in schema[key]]
    if "not" in schema:
        made["not"] = _nested(schema["not"])
    return made


def _bounds(schema: Schema) -> Schema:
    """Bounds as draft 7 writes them, those of an int32 included."""
    made: Schema = {}
    if schema.get("format") == "int32":
        made["minimum"] = max(schema.get("minimum", _INT32[0]), _INT32[0])
        made["maximum"] = min(schema.get("maximum", _INT32[1]), _INT32[1])
    for plain, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if schema.get(exclusive) is True and plain in schema:
            made[exclusive] = schema[plain]
    return made


def _nested(schema: Schema) -> Schema:
    made = _value(schema)
    if "properties" in schema:
        made["properties"] = {name: _nested(part) for name, part in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        made["items"] = _nested(schema["items"])
    return made
