"""What uses RDMA devices of the host from other network namespaces, as it can in shared mode only.

In exclusive mode a device belongs to one namespace: k8s-rdma-shared-dev-plugin exits at its start
(EnsureRdmaSystemMode; its issue 87), and containers with a device of the host lose it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from trackbed.host.kinds.processes import find_processes
from trackbed.host.machine import Machine

_PLUGIN = "k8s-rdma-shared"
"""Name of the process of k8s-rdma-shared-dp, cut to 15 bytes (proc_pid_comm(5))."""
_DEVICES = "/dev/infiniband/uverbs"
_MODE, _SHARED = "/sys/module/ib_core/parameters/netns_mode", "Y"
_MAX_HOLDERS = 4


def explain_sharing(machine: Machine) -> str:
    """Return what shares RDMA devices of the host and what to do about it; empty if nothing does, or can."""
    if machine.read(_MODE) != _SHARED:
        return ""
    sharers = [f"k8s-rdma-shared-dev-plugin runs (process {pid})" for pid in find_processes(machine, _PLUGIN)]
    holders = list(_iter_holders(machine))
    if holders:
        suffix = f" and {len(holders) - _MAX_HOLDERS} more" if len(holders) > _MAX_HOLDERS else ""
        sharers.append(f"containers use RDMA devices of the host: {', '.join(holders[:_MAX_HOLDERS])}{suffix}")
    if not sharers:
        return ""
    return (
        f"{'; '.join(sharers)}: in exclusive mode they lose them. Take the plugin and its pods off this node and apply "
        "again, or write rdma.namespaceMode shared"
    )


def _iter_holders(machine: Machine) -> Iterator[str]:
    """Yield each process in another network namespace than the host's that has a verbs device open."""
    host = _read_target(machine.locate("/proc/1/ns/net"))
    for folder in sorted(machine.locate("/proc").glob("[0-9]*")) if host else ():
        if _read_target(folder / "ns/net") not in {"", host}:
            devices = sorted({target for target in _iter_open_files(folder) if target.startswith(_DEVICES)})
            if devices:
                name = machine.read(f"/proc/{folder.name}/comm")
                yield f"process {folder.name} ({name}) has {', '.join(devices)} open"


def _iter_open_files(folder: Path) -> Iterator[str]:
    """Yield the open files of a process; none if it has ended."""
    with suppress(OSError):
        for link in (folder / "fd").iterdir():
            yield _read_target(link)


def _read_target(link: Path) -> str:
    """Return the target of a link; empty if it is gone."""
    try:
        return str(link.readlink())
    except OSError:
        return ""
