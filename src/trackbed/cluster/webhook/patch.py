"""JSON Patch (RFC 6902) between two JSON values; the operations are add, replace and remove.

Values that are equal in Python are treated as equal, so `true` equals 1; no field of an object changes its type.
"""

from typing import Any

Operation = dict[str, Any]


def build_patch(old: Any, new: Any) -> list[Operation]:  # noqa: ANN401 - JSON holds anything
    """Return the operations that turn `old` into `new`, in order."""
    operations: list[Operation] = []
    _compare_values(old, new, "", operations)
    return operations


def escape_key(key: str) -> str:
    """Return a key as a reference token of a JSON Pointer, with its slash (RFC 6901, section 3)."""
    return "/" + key.replace("~", "~0").replace("/", "~1")


def _compare_values(old: Any, new: Any, path: str, operations: list[Operation]) -> None:  # noqa: ANN401 - JSON holds anything
    """Append the operations that turn `old` into `new`; both are at `path`."""
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        _compare_mappings(old, new, path, operations)
    elif isinstance(old, list) and isinstance(new, list):
        _compare_lists(old, new, path, operations)
    else:
        operations.append({"op": "replace", "path": path, "value": new})


def _compare_mappings(old: dict[str, Any], new: dict[str, Any], path: str, operations: list[Operation]) -> None:
    for key, value in old.items():
        if key not in new:
            operations.append({"op": "remove", "path": path + escape_key(key)})
        elif value != new[key]:
            _compare_values(value, new[key], path + escape_key(key), operations)
    for key, value in new.items():
        if key not in old:
            operations.append({"op": "add", "path": path + escape_key(key), "value": value})


def _compare_lists(before: list[Any], after: list[Any], path: str, operations: list[Operation]) -> None:
    """Append the operations item by item; surplus items are removed from the end, new items are added there."""
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        _compare_values(old, new, f"{path}/{index}", operations)
    surplus = range(len(before) - 1, len(after) - 1, -1)
    operations += [{"op": "remove", "path": f"{path}/{index}"} for index in surplus]
    operations += [{"op": "add", "path": f"{path}/-", "value": value} for value in after[len(before) :]]
