"""The schema of the Fabric as a custom resource, generated from the models of the file.

pydantic writes JSON Schema; Kubernetes takes its structural part (KEP-1027): one type a field, no references, no
alternatives. So what may be null is merely left out, the four addressing schemes become one mapping whose CEL rules
(KEP-2876) say which field goes with which scheme, and a field of several types is left to the webhook. No defaults:
what the user left out stays out, and a newer default counts as soon as the controller knows it.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import PydanticJsonSchemaWarning

from trackbed.fabric.model.fabric import FabricSpec
from trackbed.fabric.model.reference import texts, walk, words

if TYPE_CHECKING:
    from collections.abc import Iterator

Schema = dict[str, Any]

_DROPPED = frozenset({"title", "default", "additionalProperties"})
_MOST_ITEMS = 1024
_LONGEST_TEXT = 1 << 17
"""Bounds where the models have none: the server wants to know what its rules may cost."""


def fabric_spec() -> Schema:
    """The structural schema of a Fabric's `spec`."""
    with warnings.catch_warnings(action="ignore", category=PydanticJsonSchemaWarning):  # defaults go anyway
        told = FabricSpec.model_json_schema()
    models = {"FabricSpec": told, **told["$defs"]}
    for _, model in walk(FabricSpec, "", set()):
        if model.__name__ in models:  # not in it: what only stands where a field may be anything
            _document(models[model.__name__], {model.model_fields[f].alias or f: t for f, t in texts(model).items()})
    return _structural(told, models)


def _document(told: Schema, about: dict[str, str]) -> None:
    """Put the docstrings of attributes behind their fields."""
    for name, one in told["properties"].items():
        one["description"] = words(about[name])


def _structural(told: Schema, models: dict[str, Schema]) -> Schema:
    one = _resolved(told, models)
    if "oneOf" in one:
        return _merged([_structural(variant, models) for variant in one.pop("oneOf")], one)
    kept = {key: value for key, value in one.items() if key not in _DROPPED}
    if "const" in kept:
        kept["enum"] = [kept.pop("const")]
    if any(str(value).isdigit() for value in kept.get("enum", ())) and kept["type"] == "string":
        return {"description": kept["description"], "x-kubernetes-int-or-string": True}  # 1 in YAML is a number
    if "properties" in kept:
        kept["properties"] = {name: _structural(inner, models) for name, inner in kept["properties"].items()}
    elif kept.get("type") == "object":
        inner = _structural(one["additionalProperties"], models)
        kept |= {"additionalProperties": inner, "x-kubernetes-map-type": "atomic"}
    elif kept.get("type") == "array":
        kept = {
            "maxItems": _MOST_ITEMS,
            **kept,
            "items": _item(one["items"], models),
            "x-kubernetes-list-type": "atomic",
        }
    elif kept.get("type") == "string" and "enum" not in kept:
        kept.setdefault("maxLength", _LONGEST_TEXT)
    return kept


def _item(told: Schema, models: dict[str, Schema]) -> Schema:
    """An entry of a list; one of several types may also be null: no port on that rail."""
    one = _structural(told, models)
    return one if "type" in one else {**one, "nullable": True}


def _resolved(told: Schema, models: dict[str, Schema]) -> Schema:
    """A field without references, and without the null that stands for what is left out."""
    beside = {key: value for key, value in told.items() if key not in {"$ref", "anyOf", "$defs", "discriminator"}}
    if "$ref" in told:
        return {**_resolved(models[told["$ref"].rpartition("/")[2]], models), **beside}
    if "anyOf" in told:
        (only,) = (one for one in told["anyOf"] if one.get("type") != "null")
        return {**_resolved(only, models), **beside}
    return beside


def _merged(variants: list[Schema], beside: Schema) -> Schema:
    """One mapping of all variants' fields; rules say which field goes with which scheme, and within which bounds."""
    schemes = {variant["properties"]["scheme"]["enum"][0]: variant["properties"] for variant in variants}
    names = {name: None for fields in schemes.values() for name in fields if name != "scheme"}
    fields = {name: {scheme: own[name] for scheme, own in schemes.items() if name in own} for name in names}
    rules = [rule for name in names for rule in _rules(name, schemes)]
    scheme = {"type": "string", "enum": list(schemes), "description": "How a rail's range is dealt out."}
    return {
        "type": "object",
        "description": beside["description"],
        "required": ["scheme"],
        "properties": {"scheme": scheme, **{name: _widest(found) for name, found in fields.items()}},
        "x-kubernetes-validations": rules,
    }


def _widest(of: dict[str, Schema]) -> Schema:
    """A field as the first scheme has it, with the bounds of all, and what each says of it."""
    found, bounds = list(of.values()), {}
    if "minimum" in found[0]:
        bounds["minimum"] = min(one["minimum"] for one in found)
        bounds["maximum"] = max(one["maximum"] for one in found)
    alike = len({one["description"] for one in found}) == 1
    each = " ".join(f"{scheme}: {one['description']}" for scheme, one in of.items())
    return {**found[0], **bounds, "description": found[0]["description"] if alike else each}


def _rules(name: str, schemes: dict[str, Schema]) -> Iterator[dict[str, str]]:
    having = [scheme for scheme, fields in schemes.items() if name in fields]
    if len(having) < len(schemes):
        told = " or ".join(having)
        yield _rule(name, f"self.scheme in {having}", f"{name} goes with scheme {told} only")
    highest = max(fields[name].get("maximum", 0) for fields in schemes.values() if name in fields)
    for scheme in having:
        most = schemes[scheme][name].get("maximum", 0)
        if most < highest:
            yield _rule(
                name,
                f"self.scheme != '{scheme}' || self.{name} <= {most}",
                f"{name} is {most} at most in scheme {scheme}",
            )


def _rule(name: str, holds: str, message: str) -> dict[str, str]:
    return {"rule": f"!has(self.{name}) || {holds}", "message": message}
