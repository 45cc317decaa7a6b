"""Requests for GPUs in an object where no pod spec was recognised. They are reported, as their pods get no rails."""

import re
from collections.abc import Collection, Iterator, MutableMapping, MutableSequence

from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.template import Mapping, NotAJobError, find_gpu_resources
from trackbed.fabric.gpus import is_gpu_resource

_RESOURCE = re.compile(r"[\w.-]+/[\w.-]+")


def is_at_or_below(path: str, known_path: str) -> bool:
    """Return whether a path is another or below it; all paths are below the empty one."""
    return known_path in {"", path} or path.startswith((f"{known_path}.", f"{known_path}["))


def find_unknown_pods(manifest: Mapping, gpu_resource: str, known_paths: Collection[str] = ()) -> Iterator[Note]:
    """Yield notes on requests for GPUs in an object, except in the pods at the known paths."""
    for key in manifest:
        if key not in ("metadata", "status"):
            for path, name in _find_gpu_requests(manifest[key], str(key), gpu_resource):
                if not any(is_at_or_below(path, known_path) for known_path in known_paths):
                    yield _build_note(path, name)


def find_gpus_in_text(text: object, path: str, gpu_resource: str) -> Iterator[Note]:
    """Yield a note if a text, such as the manifest of another object, names a resource of GPUs."""
    names = _RESOURCE.findall(text) if isinstance(text, str) else []
    name = next((name for name in names if name == gpu_resource or is_gpu_resource(name)), None)
    if name is not None:
        yield _build_note(path, name)


def _build_note(path: str, name: str) -> Note:
    return Note(
        "different",
        "pod-of-unknown-kind",
        f"asks for {name} where no pod spec was recognised",
        "its pods get no rails; name the path of their pod spec, or let the webhook add rails to the pods",
        path,
    )


def _find_gpu_requests(value: object, path: str, gpu_resource: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each mapping `resources` that requests GPUs, and the name of the resource."""
    if isinstance(value, MutableSequence):
        for index, item in enumerate(value):
            yield from _find_gpu_requests(item, f"{path}[{index}]", gpu_resource)
    elif isinstance(value, MutableMapping):
        if isinstance(value.get("resources"), MutableMapping):
            yield from ((f"{path}.resources", name) for name in _read_gpu_resources(value, gpu_resource)[:1])
        for key in value:
            yield from _find_gpu_requests(value[key], f"{path}.{key}", gpu_resource)


def _read_gpu_resources(container: Mapping, gpu_resource: str) -> list[str]:
    try:
        return find_gpu_resources(container, gpu_resource)
    except NotAJobError:  # `resources` is something else in this kind
        return []
