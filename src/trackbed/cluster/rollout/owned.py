"""Fields that a field manager has applied to an object: its managedFields turned back into an object.

Follows the format FieldsV1 (structured-merge-diff, `fieldpath`): `f:NAME` a field, `k:{...}` the item of a list with
these keys, `v:VALUE` a member of a set, `.` the value itself; an empty mapping below means all of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from trackbed.cluster.api.response import Object


def select_owned(body: Object, manager: str) -> Object:
    """Return the object with the fields that `manager` has applied alone: applying it again changes nothing."""
    metadata = body["metadata"]
    identity = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    selection = _select(body, _read_fields(body, manager))
    head = {"apiVersion": body["apiVersion"], "kind": body["kind"]}
    return {**head, **selection, "metadata": {**identity, **selection.get("metadata", {})}}


def mask(value: Any, like: Any) -> Any:  # noqa: ANN401 - any part of an object
    """Return the fields of a value that `like` has too; lists whole."""
    if isinstance(value, dict) and isinstance(like, dict):
        return {key: mask(value[key], like[key]) for key in like if key in value}
    return value


def merge(value: Any, other: Any) -> Any:  # noqa: ANN401 - any part of an object
    """Return both in one; `other` wins where both have a field."""
    if isinstance(value, dict) and isinstance(other, dict):
        return {**value, **{key: merge(value.get(key), item) for key, item in other.items()}}
    return other


def _read_fields(body: Object, manager: str) -> Object:
    """Return what the manager applied; nothing for another version of the kind, which has another shape."""
    for entry in body["metadata"].get("managedFields", ()):
        key = (entry.get("manager"), entry.get("operation"), entry.get("apiVersion"), entry.get("subresource", ""))
        if key == (manager, "Apply", body["apiVersion"], ""):
            fields: Object = entry.get("fieldsV1", {})
            return fields
    return {}


def _select(value: Any, fields: Object) -> Any:  # noqa: ANN401 - any part of an object
    if isinstance(value, dict):
        names = ((key[2:], below) for key, below in fields.items() if key.startswith("f:"))
        return {name: _select_below(value[name], below) for name, below in names if name in value}
    return list(_select_items(value, fields)) if isinstance(value, list) else value


def _select_below(value: Any, fields: Object) -> Any:  # noqa: ANN401 - any part of an object
    return _select(value, fields) if fields else value


def _select_items(value: list[Any], fields: Object) -> Iterator[Any]:
    """Yield the items that are the manager's, in the server's order."""
    keyed = [(json.loads(key[2:]), below) for key, below in fields.items() if key.startswith("k:")]
    members = [json.loads(key[2:]) for key in fields if key.startswith("v:")]
    for item in value:
        if item in members:
            yield item
        for keys, below in keyed:
            if isinstance(item, dict) and all(item.get(name) == key for name, key in keys.items()):
                yield {**keys, **_select_below(item, below)}
