"""JSON Patch (RFC 6902): what makes one JSON value of another. Only add, replace and remove are written.

Values that Python takes for equal count as equal, so true and 1 do: nobody changes the type of a field.
"""

from __future__ import annotations

from typing import Any

Operation = dict[str, Any]


def difference(before: Any, after: Any) -> list[Operation]:  # noqa: ANN401 - JSON holds anything
    """The operations, in the order in which they must be done; none if both are equal."""
    found: list[Operation] = []
    _compare(before, after, "", found)
    return found


def pointer(key: str) -> str:
    """A key as a step of a JSON Pointer (RFC 6901, 3)."""
    return "/" + key.replace("~", "~0").replace("/", "~1")


def _compare(before: Any, after: Any, path: str, found: list[Operation]) -> None:  # noqa: ANN401 - as above
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        _mappings(before, after, path, found)
    elif isinstance(before, list) and isinstance(after, list):
        _lists(before, after, path, found)
    else:
        found.append({"op": "replace", "path": path, "value": after})


def _mappings(before: dict[str, Any], after: dict[str, Any], path: str, found: list[Operation]) -> None:
    for key, value in before.items():
        if key not in after:
            found.append({"op": "remove", "path": path + pointer(key)})
        elif value != after[key]:
            _compare(value, after[key], path + pointer(key), found)
    for key, value in after.items():
        if key not in before:
            found.append({"op": "add", "path": path + pointer(key), "value": value})


def _lists(before: list[Any], after: list[Any], path: str, found: list[Operation]) -> None:
    """Item by item; what is too much is removed from the end, what is new is appended."""
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        _compare(old, new, f"{path}/{index}", found)
    found += [{"op": "remove", "path": f"{path}/{index}"} for index in range(len(before) - 1, len(after) - 1, -1)]
    found += [{"op": "add", "path": f"{path}/-", "value": value} for value in after[len(before) :]]
