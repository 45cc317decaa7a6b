"""What a field manager has applied of an object, read back from the server: its managedFields as an object again.

Follows the format FieldsV1 (structured-merge-diff, `fieldpath`): `f:NAME` a field, `k:{...}` the item of a list with
these keys, `v:VALUE` a member of a set, `.` the thing itself; nothing below means all of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from trackbed.cluster.api.answer import Object


def owned(one: Object, manager: str) -> Object:
    """The object with the fields alone that `manager` has applied: applying it again changes nothing."""
    metadata = one["metadata"]
    named = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    found = _taken(one, _fields(one, manager))
    head = {"apiVersion": one["apiVersion"], "kind": one["kind"]}
    return {**head, **found, "metadata": {**named, **found.get("metadata", {})}}


def masked(one: Any, like: Any) -> Any:  # noqa: ANN401 - any part of an object
    """What an object has where `like` has anything; lists whole."""
    if isinstance(one, dict) and isinstance(like, dict):
        return {key: masked(one[key], like[key]) for key in like if key in one}
    return one


def merged(one: Any, other: Any) -> Any:  # noqa: ANN401 - any part of an object
    """Both in one; where both have something, the other's."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **{key: merged(one.get(key), value) for key, value in other.items()}}
    return other


def _fields(one: Object, manager: str) -> Object:
    """What the manager applied; of another version of the kind, which is another shape, nothing can be said."""
    for entry in one["metadata"].get("managedFields", ()):
        told = (entry.get("manager"), entry.get("operation"), entry.get("apiVersion"), entry.get("subresource", ""))
        if told == (manager, "Apply", one["apiVersion"], ""):
            found: Object = entry.get("fieldsV1", {})
            return found
    return {}


def _taken(value: Any, fields: Object) -> Any:  # noqa: ANN401 - any part of an object
    if isinstance(value, dict):
        named = ((key[2:], below) for key, below in fields.items() if key.startswith("f:"))
        return {name: _whole(value[name], below) for name, below in named if name in value}
    return list(_items(value, fields)) if isinstance(value, list) else value


def _whole(value: Any, fields: Object) -> Any:  # noqa: ANN401 - any part of an object
    return _taken(value, fields) if fields else value


def _items(value: list[Any], fields: Object) -> Iterator[Any]:
    """The items that are the manager's, in the server's order."""
    keyed = [(json.loads(key[2:]), below) for key, below in fields.items() if key.startswith("k:")]
    members = [json.loads(key[2:]) for key in fields if key.startswith("v:")]
    for item in value:
        if item in members:
            yield item
        for keys, below in keyed:
            if isinstance(item, dict) and all(item.get(name) == key for name, key in keys.items()):
                yield {**keys, **_whole(item, below)}
