"""Reading and editing a pod template as a mapping: plain dicts, and ruamel.yaml's, which keep comments.

Nothing is made of another type than what is there, and what the user left out is made only where it is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, MutableSequence
from typing import Any

Mapping = MutableMapping[str, Any]
List = MutableSequence[Any]


class NotAJobError(ValueError):
    """A document that claims to be a job and has not its shape: what is wrong, and where from its top."""

    def __init__(self, what: str, path: str) -> None:
        self.path = path
        super().__init__(f"{path}: {what}" if path else what)


def plain(value: Any) -> Any:  # noqa: ANN401 - YAML holds anything
    """A copy in plain dicts and lists; copying ruamel.yaml's own takes time with the square of their length."""
    if isinstance(value, MutableMapping):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, MutableSequence) else value


def mapping(parent: Mapping, *keys: str) -> Mapping:
    """The mapping at `keys`, made where it is absent or null."""
    for key in keys:
        if parent.get(key) is None:
            parent[key] = {}
        parent = _typed(parent[key], MutableMapping, "mapping", key)
    return parent


def annotations_of(template: Mapping) -> Mapping:
    """The annotations of a template, made where absent; metadata that is made stands first."""
    if template.get("metadata") is None and hasattr(template, "insert"):
        template.pop("metadata", None)
        template.insert(0, "metadata", {})
    elif "metadata" not in template:
        rest = dict(template)
        template.clear()
        template.update({"metadata": {}, **rest})
    return mapping(template, "metadata", "annotations")


def listed(parent: Mapping, key: str) -> List:
    """The list at `key`, made where it is absent or null."""
    if parent.get(key) is None:
        parent[key] = []
    found: List = _typed(parent[key], MutableSequence, "list", key)
    return found


def look(parent: Mapping, *keys: str) -> Mapping:
    """The mapping at `keys` for reading; empty where it is absent."""
    for key in keys:
        found = parent.get(key)
        parent = {} if found is None else _typed(found, MutableMapping, "mapping", key)
    return parent


def items(parent: Mapping, key: str) -> list[Mapping]:
    """The mappings in the list at `key` for reading; none where it is absent."""
    found = parent.get(key)
    if found is None:
        return []
    return [_typed(one, MutableMapping, "mapping", key) for one in _typed(found, MutableSequence, "list", key)]


_PLAIN: dict[Any, type] = {MutableMapping: dict, MutableSequence: list}
"""What most of them are: to ask an abstract type takes ten times as long, and a review asks 200 times."""


def _typed(value: Any, kind: Any, name: str, path: str) -> Any:  # noqa: ANN401 - YAML holds anything
    if type(value) is not _PLAIN[kind] and not isinstance(value, kind):
        raise NotAJobError(f"expected a {name}, found {_short(value)}", path)
    return value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - what fits a line beside the message


def names(container: Mapping, *sections: str) -> Iterator[str]:
    """Resource names a container asks for, in limits and requests."""
    for section in sections or ("limits", "requests"):
        yield from look(container, "resources", section)


def container_of(spec: Mapping, gpu_resource: str | None) -> Mapping:
    """The container that uses the GPUs: the first that asks for them, else the first of all."""
    containers = items(spec, "containers")
    if not containers:
        raise NotAJobError("expected at least one container", "spec.containers")
    asking = [one for one in containers if gpu_resource is not None and gpu_resource in names(one)]
    return (asking or containers)[0]


def place_of(spec: Mapping, container: Mapping) -> str:
    """Where a container stands in its template."""
    index = next(index for index, one in enumerate(items(spec, "containers")) if one is container)
    return f"spec.containers[{index}]"
