"""The structural schema (KEP-1027) of a msgspec struct: field types, and the docstrings behind attributes."""

from __future__ import annotations

from typing import Any

import msgspec

from trackbed.cluster.resources.conditions import Condition
from trackbed.fabric.model.reference import texts, words

Schema = dict[str, Any]

_MOST_ITEMS = 1024
_SCALARS: dict[type, Schema] = {
    msgspec.inspect.StrType: {"type": "string"},
    msgspec.inspect.IntType: {"type": "integer"},
    msgspec.inspect.BoolType: {"type": "boolean"},
}


def schema(kind: type[msgspec.Struct]) -> Schema:
    """The schema of objects of a struct."""
    told = msgspec.inspect.type_info(kind)
    assert isinstance(told, msgspec.inspect.StructType)  # noqa: S101 - a struct's info is one
    return _struct(told)


def _struct(told: msgspec.inspect.StructType) -> Schema:
    about = texts(told.cls)
    required = [field.encode_name for field in told.fields if field.required]
    return {
        "type": "object",
        "description": words((told.cls.__doc__ or "").strip()),
        **({"required": required} if required else {}),
        "properties": {
            field.encode_name: {**_of(field.type), "description": words(about[field.name])} for field in told.fields
        },
    }


def _of(told: msgspec.inspect.Type) -> Schema:
    if isinstance(told, msgspec.inspect.StructType):
        return _struct(told)
    if isinstance(told, msgspec.inspect.VarTupleType):
        return {"type": "array", "maxItems": _MOST_ITEMS, **_list(told.item_type), "items": _of(told.item_type)}
    if isinstance(told, msgspec.inspect.LiteralType):
        return {"type": "string", "enum": list(told.values)}
    if isinstance(told, msgspec.inspect.DictType):
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-map-type": "atomic"}
    return dict(_SCALARS[type(told)])


def _list(item: msgspec.inspect.Type) -> Schema:
    """Conditions are kept by several, each its own; every other list has one writer."""
    if isinstance(item, msgspec.inspect.StructType) and item.cls is Condition:
        return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    return {"x-kubernetes-list-type": "atomic"}
