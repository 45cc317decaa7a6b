"""Conversion of a CRD's openAPIV3Schema to a JSON schema (draft 7) that validates like a strict API server.

Follows the structural schemas of apiextensions.k8s.io/v1: a field that is not declared is an error
(fieldValidation=Strict) unless x-kubernetes-preserve-unknown-fields keeps it. CEL rules are not evaluated.
"""

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


def convert_schema(schema: Schema) -> Schema:
    """Convert the schema of a whole object."""
    made = _convert_structural(schema)
    made["properties"] = {**made.get("properties", {}), **_OBJECT_FIELDS}
    made.get("properties", {}).pop("status", None)
    if made.get("additionalProperties") is False:
        made["properties"]["status"] = {}  # controllers write it; an exported manifest contains it
    return made


def _convert_structural(schema: Schema) -> Schema:
    made = _convert_value(schema)
    if "properties" in schema:
        needed = schema.get("required", ())
        made["properties"] = {
            name: _convert_structural(part) if name in needed else _convert_optional(part)
            for name, part in schema["properties"].items()
        }
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        made["additionalProperties"] = _convert_optional(extra)
    elif extra is None and schema.get("type") == "object" and not _keeps_unknown(schema):
        made["additionalProperties"] = False
    if isinstance(schema.get("items"), dict):
        made["items"] = _convert_structural(schema["items"])
    if schema.get("x-kubernetes-embedded-resource"):
        made["properties"] = {**_OBJECT_FIELDS, **made.get("properties", {})}
    return made


def _convert_optional(schema: Schema) -> Schema:
    """Convert the schema of an optional property. The API server treats null as absent (tested with 1.36.3)."""
    return _allow_null(_convert_structural(schema))


def _allow_null(made: Schema) -> Schema:
    kinds = made.get("type", [])
    listed = [kinds] if isinstance(kinds, str) else kinds
    if listed:
        made["type"] = list(dict.fromkeys([*listed, "null"]))
    if "enum" in made and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    return made


def _keeps_unknown(schema: Schema) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def _convert_value(schema: Schema) -> Schema:
    """Convert the constraints of the value itself, the only ones that allOf, anyOf, oneOf and not may contain."""
    made = {key: item for key, item in schema.items() if key in _KEPT} | _bounds(schema)
    if schema.get("x-kubernetes-int-or-string"):
        made["type"] = ["integer", "string"]
        schema = {key: item for key, item in schema.items() if key != "anyOf"}
    if schema.get("nullable"):
        made = _allow_null(made)
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema:
            made[key] = [_convert_nested(part) for part in schema[key]]
    if "not" in schema:
        made["not"] = _convert_nested(schema["not"])
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


def _convert_nested(schema: Schema) -> Schema:
    made = _convert_value(schema)
    if "properties" in schema:
        made["properties"] = {name: _convert_nested(part) for name, part in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        made["items"] = _convert_nested(schema["items"])
    return made
