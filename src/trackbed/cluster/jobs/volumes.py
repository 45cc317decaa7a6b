"""Volumes of a pod with rails: memory at /dev/shm, and host paths for the network library."""

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.template import Mapping, ensure_list, locate_container, read_mapping, read_mappings
from trackbed.cluster.stacks.access import Access, HostPath

SHM = "/dev/shm"  # noqa: S108 - the path inside the pod
_SMALL_SHM_EFFECT = (
    "a container has 64 MiB there by default; NCCL fails to extend its segments, data loaders die of SIGBUS"
)


def add_volumes(spec: Mapping, container: Mapping, access: Access) -> Iterator[Note]:
    """Add a memory volume without size limit at /dev/shm, and the stack's host paths; yield notes.

    Existing mounts at these paths are kept.
    """
    yield from _add_shm(spec, container)
    for host_path in access.host_paths:
        yield from _add_host_path(spec, container, host_path)


def _add_shm(spec: Mapping, container: Mapping) -> Iterator[Note]:
    path = f"{locate_container(spec, container)}.volumeMounts"
    volume = {"name": "dshm", "emptyDir": {"medium": "Memory"}}
    if _add_missing_mount(spec, container, volume, {"mountPath": SHM}):
        yield Note("missing", "shm-missing", f"a memory volume at {SHM}", _SMALL_SHM_EFFECT, path)
    mounted = _find_mounted_volume(spec, container, SHM)
    if (
        mounted is not None
        and set(mounted) <= {"name", "emptyDir"}
        and read_mapping(mounted, "emptyDir").get("medium") != "Memory"
    ):
        yield Note(
            "different",
            "pod-shm-on-disk",
            f"volume {mounted.get('name')} at {SHM} is on disk, not in memory",
            "NCCL's shared memory is as slow as the disk",
            path,
        )


def _add_host_path(spec: Mapping, container: Mapping, host_path: HostPath) -> Iterator[Note]:
    path = f"{locate_container(spec, container)}.volumeMounts"
    breaks = "the network library does not find its files or devices"
    volume = {"name": host_path.name, "hostPath": {"path": host_path.path}}
    mount = {"mountPath": host_path.mount} | ({"readOnly": True} if host_path.read_only else {})
    if _add_missing_mount(spec, container, volume, mount):
        yield Note("missing", "pod-host-path", f"the host's {host_path.path} at {host_path.mount}", breaks, path)
    mounted = _find_mounted_volume(spec, container, host_path.mount)
    if mounted is not None and read_mapping(mounted, "hostPath").get("path") != host_path.path:
        yield Note(
            "different",
            "pod-host-path",
            f"volume {mounted.get('name')} at {host_path.mount} is not the host's {host_path.path}",
            breaks,
            path,
        )


def _add_missing_mount(spec: Mapping, container: Mapping, volume: dict[str, Any], mount: dict[str, Any]) -> bool:
    """Mount a volume, or add the volume of an existing mount; return whether anything was added."""
    current = _find_mount(container, mount["mountPath"])
    if current is None:
        _append_mount(spec, container, volume, mount)
        return True
    is_ours = current.get("name") == volume["name"]
    if is_ours and all(other.get("name") != volume["name"] for other in read_mappings(spec, "volumes")):
        ensure_list(spec, "volumes").append(volume)
        return True
    return False


def _find_mounted_volume(spec: Mapping, container: Mapping, path: str) -> Mapping | None:
    """Return the volume mounted at a path; None if the pod's spec lacks it, as for a StatefulSet's volume claims."""
    mount = _find_mount(container, path)
    name = mount.get("name") if mount is not None else None
    return next((volume for volume in read_mappings(spec, "volumes") if volume.get("name") == name), None)


def _find_mount(container: Mapping, mount_path: str) -> Mapping | None:
    mounts = read_mappings(container, "volumeMounts")
    return next((mount for mount in mounts if str(mount.get("mountPath")).rstrip("/") == mount_path.rstrip("/")), None)


def _append_mount(spec: Mapping, container: Mapping, volume: dict[str, Any], mount: dict[str, Any]) -> None:
    """Mount a volume. It is renamed if the user has another volume of that name; an identical volume is reused."""
    volumes = {str(other.get("name")): other for other in read_mappings(spec, "volumes")}
    name = volume["name"]
    while name in volumes and dict(volumes[name]) != volume | {"name": name}:
        name += "-rails"
    if name not in volumes:
        ensure_list(spec, "volumes").append(volume | {"name": name})
    ensure_list(container, "volumeMounts").append({"name": name, **mount})
