"""Memory at /dev/shm, and the host's folders that a network library needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.template import Mapping, items, listed, look, place_of
from trackbed.cluster.stacks.access import Access, HostPath

SHM = "/dev/shm"  # noqa: S108 - the path inside the pod
_SMALL = "a container has 64 MiB there by default; NCCL fails to extend its segments, data loaders die of SIGBUS"


def mount(spec: Mapping, container: Mapping, access: Access) -> Iterator[Note]:
    """Add an unlimited memory volume at /dev/shm and the stack's host paths, where nothing is mounted yet."""
    yield from _shm(spec, container)
    for one in access.host_paths:
        yield from _host_path(spec, container, one)


def _shm(spec: Mapping, container: Mapping) -> Iterator[Note]:
    place = f"{place_of(spec, container)}.volumeMounts"
    volume = {"name": "dshm", "emptyDir": {"medium": "Memory"}}
    if _mounted_now(spec, container, volume, {"mountPath": SHM}):
        yield Note("missing", "pod-shm-too-small", f"a memory volume at {SHM}", _SMALL, place)
    held = _volume_at(spec, container, SHM)
    if held is not None and set(held) <= {"name", "emptyDir"} and look(held, "emptyDir").get("medium") != "Memory":
        what = f"volume {held.get('name')} at {SHM} is on disk, not in memory"
        yield Note("different", "pod-shm-on-disk", what, "NCCL's shared memory is as slow as the disk", place)


def _host_path(spec: Mapping, container: Mapping, one: HostPath) -> Iterator[Note]:
    place = f"{place_of(spec, container)}.volumeMounts"
    breaks = "the network library does not find its files or devices"
    volume = {"name": one.name, "hostPath": {"path": one.path}}
    if _mounted_now(spec, container, volume, {"mountPath": one.mount} | ({"readOnly": True} if one.read_only else {})):
        yield Note("missing", "pod-host-path", f"the host's {one.path} at {one.mount}", breaks, place)
    held = _volume_at(spec, container, one.mount)
    if held is not None and look(held, "hostPath").get("path") != one.path:
        what = f"volume {held.get('name')} at {one.mount} is not the host's {one.path}"
        yield Note("different", "pod-host-path", what, breaks, place)


def _mounted_now(spec: Mapping, container: Mapping, volume: dict[str, Any], where: dict[str, Any]) -> bool:
    """Mount a volume where nothing is mounted, or complete a mount whose volume is missing; whether that was done."""
    mounted = _at(container, where["mountPath"])
    if mounted is None:
        _mount(spec, container, volume, where)
        return True
    ours = mounted.get("name") == volume["name"]
    if ours and all(one.get("name") != volume["name"] for one in items(spec, "volumes")):
        listed(spec, "volumes").append(volume)
        return True
    return False


def _volume_at(spec: Mapping, container: Mapping, path: str) -> Mapping | None:
    """The volume mounted at a path; None also where it is not the template's own, such as a StatefulSet's claim."""
    mounted = _at(container, path)
    name = mounted.get("name") if mounted is not None else None
    return next((one for one in items(spec, "volumes") if one.get("name") == name), None)


def _at(container: Mapping, path: str) -> Mapping | None:
    mounts = items(container, "volumeMounts")
    return next((one for one in mounts if str(one.get("mountPath")).rstrip("/") == path.rstrip("/")), None)


def _mount(spec: Mapping, container: Mapping, volume: dict[str, Any], where: dict[str, Any]) -> None:
    """Mount a volume, under another name where the user's own volume has that one; an equal one is used again."""
    held = {one.get("name"): one for one in items(spec, "volumes")}
    name = volume["name"]
    while name in held and dict(held[name]) != volume | {"name": name}:
        name += "-rails"
    if name not in held:
        listed(spec, "volumes").append(volume | {"name": name})
    listed(container, "volumeMounts").append({"name": name, **where})
