"""The structural schema (KEP-1027) of a msgspec struct: field types, and the docstrings behind attributes."""

from typing import Any

import msgspec

from trackbed.cluster.resources.conditions import Condition
from trackbed.fabric.model.docstrings import join_lines, read_attribute_docstrings

Schema = dict[str, Any]

_MOST_ITEMS = 1024
_SCALARS: dict[type, Schema] = {
    msgspec.inspect.StrType: {"type": "string"},
    msgspec.inspect.IntType: {"type": "integer"},
    msgspec.inspect.BoolType: {"type": "boolean"},
}
_LIMITS = {"max_length": "maxLength", "ge": "minimum", "le": "maximum"}
"""Attribute of a scalar's type -> keyword of its schema."""


def derive_schema(kind: type[msgspec.Struct]) -> Schema:
    """Return the schema of a struct."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)  # noqa: S101 - a struct's info is one
    return _derive_struct(info)


def _derive_struct(info: msgspec.inspect.StructType) -> Schema:
    about = read_attribute_docstrings(info.cls)
    required = [field.encode_name for field in info.fields if field.required]
    return {
        "type": "object",
        "description": join_lines((info.cls.__doc__ or "").strip()),
        **({"required": required} if required else {}),
        "properties": {
            field.encode_name: {**_derive_type(field.type), "description": join_lines(about[field.name])}
            for field in info.fields
        },
    }


def _derive_type(info: msgspec.inspect.Type) -> Schema:
    if isinstance(info, msgspec.inspect.Metadata):
        return {**_derive_type(info.type), **(info.extra_json_schema or {})}
    if isinstance(info, msgspec.inspect.StructType):
        return _derive_struct(info)
    if isinstance(info, msgspec.inspect.VarTupleType):
        return {
            "type": "array",
            "maxItems": _MOST_ITEMS if info.max_length is None else info.max_length,
            **_derive_list_type(info.item_type),
            "items": _derive_type(info.item_type),
        }
    if isinstance(info, msgspec.inspect.LiteralType):
        return {"type": "string", "enum": list(info.values)}
    if isinstance(info, msgspec.inspect.DictType):
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-map-type": "atomic"}
    limits = ((keyword, getattr(info, name, None)) for name, keyword in _LIMITS.items())
    return {**_SCALARS[type(info)], **{keyword: limit for keyword, limit in limits if limit is not None}}


def _derive_list_type(item: msgspec.inspect.Type) -> Schema:
    """Return how writers share a list: each owns some conditions, every other list has one writer."""
    if isinstance(item, msgspec.inspect.StructType) and item.cls is Condition:
        return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    return {"x-kubernetes-list-type": "atomic"}
