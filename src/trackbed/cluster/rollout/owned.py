"""The fields of an object that a field manager has applied, by the object's managedFields.

Their format is FieldsV1 (structured-merge-diff, `fieldpath`): `f:NAME` is a field, `k:{...}` the item of a list with
these keys, `v:VALUE` a member of a set, `.` the value itself. An empty mapping means the whole value.
"""

import json
from collections.abc import Iterator
from typing import Any

from trackbed.cluster.api.response import Object


def select_owned_fields(body: Object, manager: str) -> Object:
    """Return an object with only the fields that `manager` has applied, so that applying it changes nothing."""
    metadata = body["metadata"]
    identity = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    selection = _select_fields(body, _read_owned_fields(body, manager))
    head = {"apiVersion": body["apiVersion"], "kind": body["kind"]}
    return {**head, **selection, "metadata": {**identity, **selection.get("metadata", {})}}


def mask_fields(value: Any, template: Any) -> Any:  # noqa: ANN401 - any part of an object
    """Return a value with only the fields that `template` has. Lists are kept whole."""
    if isinstance(value, dict) and isinstance(template, dict):
        return {key: mask_fields(value[key], template[key]) for key in template if key in value}
    return value


def merge_fields(value: Any, other: Any) -> Any:  # noqa: ANN401 - any part of an object
    """Return a value with the fields of `value` and `other`; those of `other` take precedence."""
    if isinstance(value, dict) and isinstance(other, dict):
        return {**value, **{key: merge_fields(value.get(key), item) for key, item in other.items()}}
    return other


def _read_owned_fields(body: Object, manager: str) -> Object:
    """Return the FieldsV1 of a manager; empty if it applied another API version, whose fields may differ."""
    for entry in body["metadata"].get("managedFields", ()):
        key = (entry.get("manager"), entry.get("operation"), entry.get("apiVersion"), entry.get("subresource", ""))
        if key == (manager, "Apply", body["apiVersion"], ""):
            fields: Object = entry.get("fieldsV1", {})
            return fields
    return {}


def _select_fields(value: Any, fields: Object) -> Any:  # noqa: ANN401 - any part of an object
    if isinstance(value, dict):
        names = ((key[2:], below) for key, below in fields.items() if key.startswith("f:"))
        return {name: _select_subfields(value[name], below) for name, below in names if name in value}
    return list(_select_items(value, fields)) if isinstance(value, list) else value


def _select_subfields(value: Any, fields: Object) -> Any:  # noqa: ANN401 - any part of an object
    return _select_fields(value, fields) if fields else value


def _select_items(value: list[Any], fields: Object) -> Iterator[Any]:
    """Yield the items of a list that `fields` select, in the server's order."""
    keyed = [(json.loads(key[2:]), below) for key, below in fields.items() if key.startswith("k:")]
    members = [json.loads(key[2:]) for key in fields if key.startswith("v:")]
    for item in value:
        if item in members:
            yield item
        for keys, below in keyed:
            if isinstance(item, dict) and all(item.get(name) == key for name, key in keys.items()):
                yield {**keys, **_select_subfields(item, below)}
