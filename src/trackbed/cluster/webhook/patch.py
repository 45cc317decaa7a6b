"""JSON Patch (RFC 6902) between two JSON values, with operations add, replace and remove only.

Values that are equal in Python count as equal, so `true` and 1 do; no field changes its type.
"""

from typing import Any

Operation = dict[str, Any]


def build_patch(before: Any, after: Any) -> list[Operation]:  # noqa: ANN401 - JSON holds anything
    """Return the operations in order; none if both values are equal."""
    operations: list[Operation] = []
    _compare(before, after, "", operations)
    return operations


def escape_key(key: str) -> str:
    """Return a key as a step of a JSON Pointer (RFC 6901, 3)."""
    return "/" + key.replace("~", "~0").replace("/", "~1")


def _compare(before: Any, after: Any, path: str, operations: list[Operation]) -> None:  # noqa: ANN401 - JSON, as above
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        _compare_mappings(before, after, path, operations)
    elif isinstance(before, list) and isinstance(after, list):
        _compare_lists(before, after, path, operations)
    else:
        operations.append({"op": "replace", "path": path, "value": after})


def _compare_mappings(before: dict[str, Any], after: dict[str, Any], path: str, operations: list[Operation]) -> None:
    for key, value in before.items():
        if key not in after:
            operations.append({"op": "remove", "path": path + escape_key(key)})
        elif value != after[key]:
            _compare(value, after[key], path + escape_key(key), operations)
    for key, value in after.items():
        if key not in before:
            operations.append({"op": "add", "path": path + escape_key(key), "value": value})


def _compare_lists(before: list[Any], after: list[Any], path: str, operations: list[Operation]) -> None:
    """Compare item by item; surplus items are removed from the end, new items are appended."""
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        _compare(old, new, f"{path}/{index}", operations)
    surplus = range(len(before) - 1, len(after) - 1, -1)
    operations += [{"op": "remove", "path": f"{path}/{index}"} for index in surplus]
    operations += [{"op": "add", "path": f"{path}/-", "value": value} for value in after[len(before) :]]
