"""Volumes of a pod with rails: memory at /dev/shm, and host paths for the network library."""

from collections.abc import Collection, Iterator
from decimal import Decimal
from typing import Any

from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.template import (
    Mapping,
    count_gpus,
    ensure_list,
    locate_container,
    read_mapping,
    read_mappings,
)
from trackbed.cluster.stacks.access import HostPath
from trackbed.fabric.quantities import parse_quantity

SHM = "/dev/shm"  # noqa: S108 - the path inside the pod
_SHM_OF_GPU = 2**30
"""Bytes at /dev/shm for each GPU: about those of NCCL's buffers with many channels, and of data loaders."""
_SMALL_SHM_EFFECT = (
    "a container has 64 MiB there by default; NCCL fails to extend its segments, data loaders die of SIGBUS"
)


def add_volumes(
    spec: Mapping, container: Mapping, requirements: PodRequirements, other_names: Collection[str]
) -> Iterator[Note]:
    """Add a memory volume without size limit at /dev/shm, and the stack's host paths; yield notes.

    Existing mounts at these paths are kept. `other_names` are volumes of the pod that its spec does not list.
    """
    yield from _add_shm(spec, container, requirements.gpu_resource, other_names)
    for host_path in requirements.access.host_paths:
        yield from _add_host_path(spec, container, host_path, other_names)


def _add_shm(spec: Mapping, container: Mapping, gpu_resource: str, other_names: Collection[str]) -> Iterator[Note]:
    path = f"{locate_container(spec, container)}.volumeMounts"
    volume = {"name": "dshm", "emptyDir": {"medium": "Memory"}}
    if _add_missing_mount(spec, container, volume, {"mountPath": SHM}, other_names):
        yield Note("missing", "shm-missing", f"a memory volume at {SHM}", _SMALL_SHM_EFFECT, path)
    mounted = _find_mounted_volume(spec, container, SHM)
    if mounted is not None and set(mounted) <= {"name", "emptyDir"}:
        gpus = max(Decimal(1), count_gpus(container, gpu_resource))
        yield from _check_shm(mounted, gpus, path)


def _check_shm(volume: Mapping, gpus: Decimal, path: str) -> Iterator[Note]:
    """Yield a note if the emptyDir at /dev/shm is on disk or small."""
    empty_dir = read_mapping(volume, "emptyDir")
    limit = empty_dir.get("sizeLimit")
    size = parse_quantity(str(limit))
    if empty_dir.get("medium") != "Memory":
        difference = f"volume {volume.get('name')} at {SHM} is on disk, not in memory"
        yield Note("different", "pod-shm-on-disk", difference, "NCCL's shared memory is as slow as the disk", path)
    elif size is not None and 0 < size < gpus * _SHM_OF_GPU:
        difference = f"volume {volume.get('name')} at {SHM} holds {limit}, less than {gpus:f}Gi, 1Gi for each GPU"
        breaks = "a full one ends NCCL at its start, or data loaders by SIGBUS; leave out the limit"
        yield Note("different", "pod-shm-small", difference, breaks, path)


def _add_host_path(
    spec: Mapping, container: Mapping, host_path: HostPath, other_names: Collection[str]
) -> Iterator[Note]:
    path = f"{locate_container(spec, container)}.volumeMounts"
    breaks = "the network library does not find its files or devices"
    volume = {"name": host_path.name, "hostPath": {"path": host_path.path}}
    mount = {"mountPath": host_path.mount} | ({"readOnly": True} if host_path.read_only else {})
    if _add_missing_mount(spec, container, volume, mount, other_names):
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


def _add_missing_mount(
    spec: Mapping, container: Mapping, volume: dict[str, Any], mount: dict[str, Any], other_names: Collection[str]
) -> bool:
    """Mount a volume, or add the volume of an existing mount; return whether anything was added."""
    current = _find_mount(container, mount["mountPath"])
    if current is None:
        _append_mount(spec, container, volume, mount, other_names)
        return True
    names = [*other_names, *(other.get("name") for other in read_mappings(spec, "volumes"))]
    if current.get("name") == volume["name"] and volume["name"] not in names:
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


def _append_mount(
    spec: Mapping, container: Mapping, volume: dict[str, Any], mount: dict[str, Any], other_names: Collection[str]
) -> None:
    """Mount a volume. It is renamed if the user has another volume of that name; an identical volume is reused."""
    volumes = {str(other.get("name")): other for other in read_mappings(spec, "volumes")}
    name = volume["name"]
    while name in other_names or (name in volumes and dict(volumes[name]) != volume | {"name": name}):
        name += "-rails"
    if name not in volumes:
        ensure_list(spec, "volumes").append(volume | {"name": name})
    ensure_list(container, "volumeMounts").append({"name": name, **mount})
