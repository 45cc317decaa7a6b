"""The JSON Schema of the Fabric file for editors: completion, descriptions and mistakes while one types."""

import json
from typing import Any

from pydantic import BaseModel

from tools.pages.fabric_page import iter_models
from tools.pages.model_schema import Schema, read_model_schema
from trackbed.fabric.model.docstrings import join_lines, read_attribute_docstrings, read_section
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.model.nodes import PortSelector
from trackbed.fabric.model.rails import RailSpec
from trackbed.fabric.typed_yaml import parse_values


def _describe_fields(model: type[BaseModel]) -> dict[str, Schema]:
    """Return description and example of each field of a model."""
    (examples,) = parse_values(read_section(model)[1])
    aliases = {name: field.alias or name for name, field in model.model_fields.items()}
    return {
        aliases[name]: {"description": join_lines(text), "examples": [examples[aliases[name]]]}
        for name, text in read_attribute_docstrings(model).items()
    }


_PORT: Schema = {
    "anyOf": [
        {"type": "null", "description": "No port on this rail."},
        {"type": "string", "description": "A PCI address, a MAC address, or an interface name."},
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                alias: {"type": "string", **about} for alias, about in _describe_fields(PortSelector).items()
            },
        },
    ]
}
_RAILS: Schema = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {
            "type": "array",
            "minItems": 1,
            "items": {"type": ["object", "string", "null"], "properties": _describe_fields(RailSpec)},
        },
    ]
}
_OPEN = "x-kubernetes-preserve-unknown-fields"
"""Marks a field of several types, which the models leave to their validators."""


def render_editor_schema() -> str:
    """Render the schema of a whole document."""
    return json.dumps(derive_editor_schema(), indent=1, ensure_ascii=False) + "\n"


def derive_editor_schema() -> Schema:
    """Return the schema of a whole document, with the text of each field from its attribute docstring."""
    schema = read_model_schema(Fabric)
    models = {"Fabric": schema, **schema["$defs"]}
    for _, model in iter_models(Fabric, "", set()):
        if model.__name__ in models:  # models of fields of several types are missing
            section = models[model.__name__]
            section["description"] = read_section(model)[0]
            for alias, about in _describe_fields(model).items():
                section["properties"][alias] |= about
    open_schema = {"$schema": "http://json-schema.org/draft-07/schema#", **_simplify(schema)}
    group = open_schema["$defs"]["NodeGroup"]["properties"]
    group["ports"]["anyOf"][0]["items"] = _PORT
    group["hostPorts"]["additionalProperties"]["items"] = _PORT
    rails = open_schema["$defs"]["FabricSpec"]["properties"]["rails"]
    rails |= _RAILS
    sockets = open_schema["$defs"]["BiosSpec"]["properties"]["numaPerSocket"]
    sockets["anyOf"][0] = {"enum": [number for text in sockets["anyOf"][0]["enum"] for number in (int(text), text)]}
    return open_schema


def _simplify(value: Any) -> Any:  # noqa: ANN401 - JSON is anything
    """Return JSON without titles, which repeat names, and without marks of Kubernetes."""
    if isinstance(value, list):
        return [_simplify(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _simplify(item)
        for key, item in value.items()
        if not (key == "title" and isinstance(item, str)) and key != _OPEN
    }
