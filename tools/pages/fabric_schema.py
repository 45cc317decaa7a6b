"""The schema of the Fabric as a custom resource, generated from the models of the file.

pydantic writes JSON Schema; Kubernetes takes its structural part (KEP-1027): one type a field, no references, no
alternatives. So what may be null is merely left out, the four addressing schemes become one mapping whose CEL rules
(KEP-2876) say which field goes with which scheme, and a field of several types is left to the webhook. No defaults:
what the user left out stays out, and a newer default counts as soon as the controller knows it.
"""

from collections.abc import Iterator

from tools.pages.fabric_page import iter_models
from tools.pages.model_schema import Schema, read_model_schema
from trackbed.fabric.model.docstrings import join_lines, read_attribute_docstrings, read_section
from trackbed.fabric.model.fabric import FabricSpec

_DROPPED = frozenset({"title", "default", "additionalProperties"})
_MOST_ITEMS = 1024
_LONGEST_TEXT = 1 << 17
"""Bounds where the models have none: the server wants to know what its rules may cost."""


def derive_fabric_schema() -> Schema:
    """Return the structural schema of a Fabric's `spec`."""
    schema = read_model_schema(FabricSpec)
    models = {"FabricSpec": schema, **schema["$defs"]}
    for _, model in iter_models(FabricSpec, "", set()):
        if model.__name__ in models:  # models of fields of any type are missing
            models[model.__name__]["description"] = read_section(model)[0]
            texts = read_attribute_docstrings(model)
            for name, text in texts.items():
                models[model.__name__]["properties"][model.model_fields[name].alias or name]["description"] = (
                    join_lines(text)
                )
    return _reduce_schema(schema, models)


def _reduce_schema(schema: Schema, models: dict[str, Schema]) -> Schema:
    field = _resolve_schema(schema, models)
    if "oneOf" in field:
        return _merge_variants([_reduce_schema(variant, models) for variant in field.pop("oneOf")], field)
    reduced = {key: value for key, value in field.items() if key not in _DROPPED}
    if "const" in reduced:
        reduced["enum"] = [reduced.pop("const")]
    if any(str(value).isdigit() for value in reduced.get("enum", ())) and reduced["type"] == "string":
        return {"description": reduced["description"], "x-kubernetes-int-or-string": True}  # 1 in YAML is a number
    if "properties" in reduced:
        reduced["properties"] = {name: _reduce_schema(inner, models) for name, inner in reduced["properties"].items()}
    elif reduced.get("type") == "object":
        inner = _reduce_schema(field["additionalProperties"], models)
        reduced |= {"additionalProperties": inner, "x-kubernetes-map-type": "atomic"}
    elif reduced.get("type") == "array":
        reduced = {
            "maxItems": _MOST_ITEMS,
            **reduced,
            "items": _reduce_item(field["items"], models),
            "x-kubernetes-list-type": "atomic",
        }
    elif reduced.get("type") == "string" and "enum" not in reduced:
        reduced.setdefault("maxLength", _LONGEST_TEXT)
    return reduced


def _reduce_item(schema: Schema, models: dict[str, Schema]) -> Schema:
    """Return the schema of a list's items; an item of several types may also be null: no port on that rail."""
    item = _reduce_schema(schema, models)
    return item if "type" in item else {**item, "nullable": True}


def _resolve_schema(schema: Schema, models: dict[str, Schema]) -> Schema:
    """Return a field without references, and without null as an alternative."""
    siblings = {key: value for key, value in schema.items() if key not in {"$ref", "anyOf", "$defs", "discriminator"}}
    if "$ref" in schema:
        return {**_resolve_schema(models[schema["$ref"].rpartition("/")[2]], models), **siblings}
    if "anyOf" in schema:
        (only,) = (variant for variant in schema["anyOf"] if variant.get("type") != "null")
        return {**_resolve_schema(only, models), **siblings}
    return siblings


def _merge_variants(variants: list[Schema], union: Schema) -> Schema:
    """Merge the fields of all variants; rules say which field goes with which scheme, and within which bounds."""
    schemes = {variant["properties"]["scheme"]["enum"][0]: variant["properties"] for variant in variants}
    names = {name: None for fields in schemes.values() for name in fields if name != "scheme"}
    fields = {name: {scheme: inner[name] for scheme, inner in schemes.items() if name in inner} for name in names}
    rules = [rule for name in names for rule in _iter_rules(name, schemes)]
    scheme = {"type": "string", "enum": list(schemes), "description": "How a rail's range is dealt out."}
    return {
        "type": "object",
        "description": union["description"],
        "required": ["scheme"],
        "properties": {"scheme": scheme, **{name: _widen_field(variants) for name, variants in fields.items()}},
        "x-kubernetes-validations": rules,
    }


def _widen_field(variants: dict[str, Schema]) -> Schema:
    """Return a field as the first scheme has it, with the bounds and the descriptions of all."""
    schemas, bounds = list(variants.values()), {}
    if "minimum" in schemas[0]:
        bounds["minimum"] = min(schema["minimum"] for schema in schemas)
        bounds["maximum"] = max(schema["maximum"] for schema in schemas)
    is_shared = len({schema["description"] for schema in schemas}) == 1
    joined = " ".join(f"{scheme}: {schema['description']}" for scheme, schema in variants.items())
    return {**schemas[0], **bounds, "description": schemas[0]["description"] if is_shared else joined}


def _iter_rules(name: str, schemes: dict[str, Schema]) -> Iterator[dict[str, str]]:
    users = [scheme for scheme, fields in schemes.items() if name in fields]
    if len(users) < len(schemes):
        yield _render_rule(name, f"self.scheme in {users}", f"{name} goes with scheme {' or '.join(users)} only")
    highest = max(schemes[scheme][name].get("maximum", 0) for scheme in users)
    lowest = min(schemes[scheme][name].get("minimum", 0) for scheme in users)
    for scheme in users:
        least, most = (schemes[scheme][name].get(bound, 0) for bound in ("minimum", "maximum"))
        applies = f"self.scheme != '{scheme}' || self.{name}"
        if most < highest:
            yield _render_rule(name, f"{applies} <= {most}", f"{name} is {most} at most in scheme {scheme}")
        if least > lowest:
            yield _render_rule(name, f"{applies} >= {least}", f"{name} is {least} at least in scheme {scheme}")


def _render_rule(name: str, expression: str, message: str) -> dict[str, str]:
    return {"rule": f"!has(self.{name}) || {expression}", "message": message}
