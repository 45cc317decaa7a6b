"""Pod specs outside pod templates: views of them as templates, and the search for them in kinds that are not known.

A view has the same mappings as the manifest, so that edits of the view are edits of the manifest.
"""

from collections.abc import Iterator, MutableMapping, MutableSequence
from typing import Any

from trackbed.cluster.jobs.kinds.kind import Template
from trackbed.cluster.jobs.template import List, Mapping

_NO_ROLES = frozenset({"spec", "template", "podTemplate", "podSpec"})
"""Keys that say nothing of the role of the pods below them."""


def view_pod_spec(pod_spec: Mapping, holder: Mapping, path: str, holder_path: str, role: str) -> Template:
    """Return a pod spec as a template whose annotations are the field `annotations` of another mapping, the holder."""
    places = (("spec", path), ("metadata", holder_path))
    return Template(path, {"metadata": holder, "spec": pod_spec}, gets_rails=True, role=role, places=places)


def view_container(holder: Mapping, field: str, path: str, role: str) -> Template:
    """Return a mapping with fields of a pod's spec, its `metadata`, and one container in a field, as a template."""
    template = view_containers(holder, [holder[field]], path, field, role)
    return template._replace(places=(("spec.containers[0]", f"{path}.{field}"), *template.places[1:]))


def view_containers(holder: Mapping, containers: List, path: str, containers_path: str, role: str) -> Template:
    """Return a mapping with fields of a pod's spec, its `metadata`, and containers elsewhere in it, as a template."""
    spec: dict[str, Any] = {**holder, "containers": containers}
    view: dict[str, Any] = {"spec": spec}
    if holder.get("metadata") is not None:
        view["metadata"] = holder["metadata"]

    def store() -> None:
        fields = {key: value for key, value in spec.items() if key != "containers"}
        holder.update({**fields, "metadata": view["metadata"]} if view.get("metadata") else fields)

    places = (("spec.containers", f"{path}.{containers_path}"), ("spec", path), ("metadata", f"{path}.metadata"))
    return Template(path, view, gets_rails=True, role=role, places=places, store=store)


def find_templates(manifest: Mapping, gpu_resource: str) -> Iterator[Template]:
    """Yield the pod templates and pod specs with GPUs in an object of a kind that is not known.

    They are recognised by their shape: a list `containers` of mappings with a name or an image.
    """
    for key in manifest:
        if key not in ("metadata", "status"):
            for template in _search(manifest[key], str(key), ""):
                if template.uses_gpus(gpu_resource):
                    yield template


def _search(value: object, path: str, role: str) -> Iterator[Template]:
    if isinstance(value, MutableSequence):
        for index, item in enumerate(value):
            title = get_item_title(item) or role
            yield from _search(item, f"{path}[{index}]", title)
    elif isinstance(value, MutableMapping):
        template = _view(value, path, role)
        if template is not None:
            yield template
        else:
            for key in value:
                yield from _search(value[key], f"{path}.{key}", extend_role(role, key))


def _view(value: Mapping, path: str, role: str) -> Template | None:
    """Return a mapping as a template if it is a pod template or a pod spec, else None."""
    if _is_pod_spec(value.get("spec")):
        return Template(path, value, gets_rails=True, role=role)
    if not _is_pod_spec(value):
        return None
    if "annotations" in value:
        return view_pod_spec(value, value, path, path, role)
    template = view_pod_spec(value, {}, path, path, role)
    return template._replace(takes_annotations=False)


def _is_pod_spec(value: object) -> bool:
    containers = value.get("containers") if isinstance(value, MutableMapping) else None
    return (
        isinstance(containers, MutableSequence)
        and bool(containers)
        and all(
            isinstance(container, MutableMapping) and {"name", "image"} & container.keys() for container in containers
        )
    )


def extend_role(role: str, key: object) -> str:
    """Return the role of the pods below a key, which is the key's name unless that says nothing."""
    return role if key in _NO_ROLES else str(key)


def get_item_title(item: object) -> str:
    """Return the name of a group of pods in a list; empty if it has none."""
    return str(item.get("name") or item.get("groupName") or "") if isinstance(item, MutableMapping) else ""


def view_path(manifest: Mapping, path: str) -> Template | None:
    """Return the pod template or pod spec at a path such as `spec.groups[0].podSpec`, or None if there is none.

    `.` is the object itself.
    """
    value: Any = manifest
    for key in _split_path(path):
        value = value[key] if _has(value, key) else None
    return _view(value, path.strip("."), "") if isinstance(value, MutableMapping) else None


def _split_path(path: str) -> list[str | int]:
    parts = path.replace("[", ".").replace("]", "").split(".")
    return [int(part) if part.isdecimal() else part for part in parts if part]


def _has(value: Any, key: str | int) -> bool:  # noqa: ANN401 - YAML holds anything
    if isinstance(key, int):
        return isinstance(value, MutableSequence) and key < len(value)
    return isinstance(value, MutableMapping) and key in value
