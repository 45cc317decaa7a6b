"""Conversion of a CRD's openAPIV3Schema to a JSON schema (draft 7) that validates like a strict API server.

Follows the structural schemas of apiextensions.k8s.io/v1: a field that is not declared is an error
(fieldValidation=Strict) unless x-kubernetes-preserve-unknown-fields keeps it. CEL rules are not evaluated.
"""

from typing import Any

from trackbed.lint.schemas.formats import BOUNDS, PATTERNS

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
_KEEP_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
_OBJECT_FIELDS: dict[str, Schema] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object"},
}


def convert_schema(schema: Schema) -> Schema:
    """Convert the schema of a kind; apiVersion, kind and metadata are always declared, status is not checked."""
    converted = _convert_structural(schema)
    converted["properties"] = {**converted.get("properties", {}), **_OBJECT_FIELDS}
    converted["properties"].pop("status", None)
    if converted.get("additionalProperties") is False:
        converted["properties"]["status"] = {}  # controllers write the status, and exported manifests contain it
    return converted


def _convert_structural(schema: Schema) -> Schema:
    converted = _convert_value(schema)
    if "properties" in schema:
        needed = [name for name in schema.get("required", ()) if "default" not in schema["properties"].get(name, {})]
        if "required" in converted:
            converted["required"] = needed  # the API server fills in defaults before it looks for required fields
        converted["properties"] = {
            name: _convert_structural(part) if name in needed else _convert_optional(part)
            for name, part in schema["properties"].items()
        }
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        converted["additionalProperties"] = _convert_optional(extra)
    elif extra is None and schema.get("type") == "object" and not schema.get(_KEEP_UNKNOWN):
        converted["additionalProperties"] = False
        converted.setdefault("properties", {})  # else jsonschema-rs does not name the field that is unknown
    if isinstance(schema.get("items"), dict):
        converted["items"] = _convert_structural(schema["items"])
    if schema.get("x-kubernetes-embedded-resource"):
        converted["properties"] = {**_OBJECT_FIELDS, **converted.get("properties", {})}
    return converted


def _convert_optional(schema: Schema) -> Schema:
    """Convert the schema of an optional property. The API server treats null as absent (tested with 1.36.3)."""
    return _allow_null(_convert_structural(schema))


def _allow_null(converted: Schema) -> Schema:
    kinds = converted.get("type", [])
    listed = [kinds] if isinstance(kinds, str) else kinds
    if listed:
        converted["type"] = list(dict.fromkeys([*listed, "null"]))
    if "enum" in converted and None not in converted["enum"]:
        converted["enum"] = [*converted["enum"], None]
    return converted


def _convert_value(schema: Schema) -> Schema:
    """Convert the constraints of the value itself, the only ones that allOf, anyOf, oneOf and not may contain."""
    converted = {key: item for key, item in schema.items() if key in _KEPT} | _convert_bounds(schema)
    if schema.get("x-kubernetes-int-or-string"):
        converted["type"] = ["integer", "string"]
        schema = {key: item for key, item in schema.items() if key != "anyOf"}
    if schema.get("format") in PATTERNS:
        converted.setdefault("pattern", PATTERNS[schema["format"]])
    if schema.get("nullable"):
        converted = _allow_null(converted)
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema:
            converted[key] = [_convert_nested(part) for part in schema[key]]
    if "not" in schema:
        converted["not"] = _convert_nested(schema["not"])
    return converted


def _convert_bounds(schema: Schema) -> Schema:
    """Return the numeric bounds in the notation of draft 7, including those of an int32 or int64."""
    converted: Schema = {}
    if schema.get("format") in BOUNDS:
        least, largest = BOUNDS[schema["format"]]
        converted["minimum"] = max(schema.get("minimum", least), least)
        converted["maximum"] = min(schema.get("maximum", largest), largest)
    for plain, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if schema.get(exclusive) is True and plain in schema:
            converted[exclusive] = schema[plain]
    return converted


def _convert_nested(schema: Schema) -> Schema:
    converted = _convert_value(schema)
    if "properties" in schema:
        converted["properties"] = {name: _convert_nested(part) for name, part in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        converted["items"] = _convert_nested(schema["items"])
    return converted
