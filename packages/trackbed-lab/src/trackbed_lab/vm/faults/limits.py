"""Faults of the step limits, made in an emulated server. What starts jobs there is a stand-in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trackbed_lab.vm.faults.fault import VmFault
from trackbed_lab.vm.faults.standins import start_standin, stop_standin

if TYPE_CHECKING:
    from trackbed_lab.vm.faults.fault import FaultyServer

_SITE = "/etc/security/limits.d/95-site.conf"
_JOBS = "/etc/systemd/logind.conf.d/90-jobs.conf"
_FILES = "/proc/sys/fs/file-max"
_INOTIFY = "/proc/sys/fs/inotify"
_GROUP = Path("/sys/fs/cgroup/lab-jobs")


def _prepared(server: FaultyServer, name: str, *limits: str) -> None:
    """A service that runs, and all around it as it wants it."""
    server.write(_FILES, "2097152")
    server.write(f"{_INOTIFY}/max_user_instances", "8192")
    server.write(f"{_INOTIFY}/max_user_watches", "1048576")
    server.write(_JOBS, "[Login]\nRemoveIPC=no\n")
    server.write("/etc/cni/net.d/10-lab.conflist", "{}")
    start_standin(name, *limits)


def _few_files(server: FaultyServer) -> None:
    _prepared(server, "containerd", "--nofile=1024")


def _endless_stack(server: FaultyServer) -> None:
    _prepared(server, "slurmd", "--stack=unlimited")


def _locked(server: FaultyServer) -> None:
    _prepared(server, "slurmd", "--memlock=8388608")


def _limited(server: FaultyServer) -> None:
    server.write(_SITE, "* - memlock 65536\n")
    _locked(server)


def _removed(server: FaultyServer) -> None:
    _prepared(server, "slurmd")
    server.write(_JOBS, "[Login]\nRemoveIPC=yes\n")


def _few_watches(server: FaultyServer) -> None:
    _prepared(server, "containerd")
    server.write(f"{_INOTIFY}/max_user_instances", "128")


def _in_group(server: FaultyServer) -> None:
    """Devices of RDMA can be limited as soon as the group has the controller; soft-RoCE devices too."""
    Path("/sys/fs/cgroup/cgroup.subtree_control").write_text("+rdma")
    _GROUP.mkdir(exist_ok=True)
    device = min(Path("/sys/class/infiniband").iterdir()).name
    server.write(str(_GROUP / "rdma.max"), f"{device} hca_handle=2 hca_object=2000")


def _out_of_group(server: FaultyServer) -> None:
    server.kept.clear()
    _GROUP.rmdir()


def _no_starter(server: FaultyServer) -> None:
    stop_standin(server, "slurmd")


def _no_runtime(server: FaultyServer) -> None:
    stop_standin(server, "containerd")


FAULTS: tuple[VmFault, ...] = (
    VmFault("limits-memlock-for-host-jobs", _limited, _no_starter),
    VmFault("limits-nofile-low", _few_files, _no_runtime),
    VmFault("limits-stack-unlimited", _endless_stack, _no_starter),
    VmFault("limits-removeipc", _removed, _no_starter),
    VmFault("limits-inotify-low", _few_watches, _no_runtime),
    VmFault("limits-rdma-cgroup", _in_group, _out_of_group),
)
