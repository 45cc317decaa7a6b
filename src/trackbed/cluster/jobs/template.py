"""Typed access to manifests as mappings.

Functions named read_ change nothing; functions named ensure_ add absent mappings and lists.
"""

from collections.abc import Collection, Iterator, MutableMapping, MutableSequence
from decimal import Decimal
from typing import Any, cast

from trackbed.fabric.gpus import is_gpu_resource
from trackbed.fabric.quantities import parse_quantity

Mapping = MutableMapping[str, Any]
List = MutableSequence[Any]


class NotAJobError(ValueError):
    """A manifest does not match the schema of its kind. `path` is the path of the invalid field, or empty."""

    def __init__(self, message: str, path: str) -> None:
        self.path = path
        super().__init__(f"{path}: {message}" if path else message)


def copy_plain(value: Any) -> Any:  # noqa: ANN401 - YAML holds anything
    """Return a deep copy in plain dicts and lists."""
    if isinstance(value, MutableMapping):
        return {key: copy_plain(item) for key, item in value.items()}
    return [copy_plain(item) for item in value] if isinstance(value, MutableSequence) else value


def ensure_mapping(parent: Mapping, *keys: str) -> Mapping:
    """Return the mapping at `keys`, added if absent or null. Raises NotAJobError for a value of another type."""
    for key in keys:
        if parent.get(key) is None:
            parent[key] = {}
        parent = _require_type(parent[key], MutableMapping, "mapping", key)
    return parent


def ensure_annotations(template: Mapping) -> Mapping:
    """Return the annotations of a pod template, added if absent; added metadata is placed before the spec."""
    if "metadata" not in template:
        fields = dict(template)
        template.clear()
        for key, value in fields.items():
            if key == "spec":
                template["metadata"] = {}
            template[key] = value
    return ensure_mapping(template, "metadata", "annotations")


def ensure_list(parent: Mapping, key: str) -> List:
    """Return the list at `key`, added if absent or null. Raises NotAJobError for a value of another type."""
    if parent.get(key) is None:
        parent[key] = []
    elements: List = _require_type(parent[key], MutableSequence, "list", key)
    return elements


def read_mapping(parent: Mapping, *keys: str) -> Mapping:
    """Return the mapping at `keys`, empty if absent or null. Raises NotAJobError for a value of another type."""
    for key in keys:
        child = parent.get(key)
        parent = {} if child is None else _require_type(child, MutableMapping, "mapping", key)
    return parent


def read_list(parent: Mapping, key: str) -> List:
    """Return the list at `key`, empty if absent or null. Raises NotAJobError for a value of another type."""
    elements = parent.get(key)
    elements = [] if elements is None else _require_type(elements, MutableSequence, "list", key)
    return cast("List", elements)


def read_mappings(parent: Mapping, key: str) -> list[Mapping]:
    """Return the mappings in the list at `key`, empty if absent or null. Raises NotAJobError for other types."""
    return [_require_type(element, MutableMapping, "mapping", key) for element in read_list(parent, key)]


_PLAIN_TYPES: dict[Any, type] = {MutableMapping: dict, MutableSequence: list}
"""Abstract type -> usual type: isinstance is ten times slower for abstract types; a webhook review makes 200 checks."""


def _require_type(value: Any, kind: Any, name: str, path: str) -> Any:  # noqa: ANN401 - YAML holds anything
    if type(value) is not _PLAIN_TYPES[kind] and not isinstance(value, kind):
        raise NotAJobError(f"expected a {name}, found {_shorten_repr(value)}", path)
    return value


def _shorten_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - what fits a line beside the message


def iter_resource_names(container: Mapping) -> Iterator[str]:
    """Yield the names in a container's limits, then those in its requests; a name in both is yielded twice."""
    for section in ("limits", "requests"):
        yield from map(str, read_mapping(container, "resources", section))


def find_gpu_resources(container: Mapping, gpu_resource: str) -> list[str]:
    """Return the resources by which a container requests GPUs: this one, and those that are known as such.

    A resource of which it requests 0 does not count.
    """
    names = dict.fromkeys(
        str(name)
        for section in ("limits", "requests")
        for name, quantity in read_mapping(container, "resources", section).items()
        if (name == gpu_resource or is_gpu_resource(str(name))) and parse_quantity(str(quantity)) != 0
    )
    return list(names)


def count_gpus(container: Mapping, gpu_resource: str) -> Decimal:
    """Return the number of GPUs that a container requests; numbers that cannot be read count as none."""
    requests, limits = (read_mapping(container, "resources", section) for section in ("requests", "limits"))
    quantities = {**requests, **limits}
    numbers = [parse_quantity(str(quantities[name])) for name in find_gpu_resources(container, gpu_resource)]
    return sum((number for number in numbers if number is not None), Decimal(0))


def choose_container(spec: Mapping, gpu_resource: str, rail_templates: Collection[str]) -> Mapping:
    """Return the container that uses the GPUs: the first that requests or claims them, else the pod's first container.

    All claims count as claims of GPUs, except those of `rail_templates`, which are the templates of rails alone.
    """
    containers = read_mappings(spec, "containers")
    if not containers:
        raise NotAJobError("expected at least one container", "spec.containers")
    requesting = (container for container in containers if find_gpu_resources(container, gpu_resource))
    claiming = (container for container in containers if _has_other_claims(spec, container, rail_templates))
    return next(requesting, None) or next(claiming, containers[0])


def _has_other_claims(spec: Mapping, container: Mapping, rail_templates: Collection[str]) -> bool:
    """Return whether a container has claims that are not of these templates."""
    rail_claims = [
        claim.get("name")
        for claim in read_mappings(spec, "resourceClaims")
        if claim.get("resourceClaimTemplateName") in rail_templates
    ]
    claims = read_mappings(read_mapping(container, "resources"), "claims")
    return any(claim.get("name") not in rail_claims for claim in claims)


def locate_container(spec: Mapping, container: Mapping) -> str:
    """Return the path of a container in its pod template, such as spec.containers[0]."""
    index = next(index for index, candidate in enumerate(read_mappings(spec, "containers")) if candidate is container)
    return f"spec.containers[{index}]"
