"""Faults of the step limits, injected in an emulated server; the services that start jobs are stand-ins."""

from pathlib import Path

from trackbed_lab.vm.faults.fault import FaultyServer, VmFault
from trackbed_lab.vm.faults.standins import start_standin, stop_standin

_PAM_LIMITS = "/etc/security/limits.d/95-site.conf"
_LOGIND = "/etc/systemd/logind.conf.d/90-jobs.conf"
_FILE_MAX = "/proc/sys/fs/file-max"
_INOTIFY = "/proc/sys/fs/inotify"
_CGROUP = Path("/sys/fs/cgroup/lab-jobs")


def _start_service(server: FaultyServer, name: str, *limits: str) -> None:
    """Start a stand-in under these limits, with every other setting as the checks require."""
    server.write_file(_FILE_MAX, "2097152")
    server.write_file(f"{_INOTIFY}/max_user_instances", "8192")
    server.write_file(f"{_INOTIFY}/max_user_watches", "1048576")
    server.write_file(_LOGIND, "[Login]\nRemoveIPC=no\n")
    server.write_file("/etc/cni/net.d/10-lab.conflist", "{}")
    start_standin(name, *limits)


def _limit_files(server: FaultyServer) -> None:
    _start_service(server, "containerd", "--nofile=1024")


def _unlimit_stack(server: FaultyServer) -> None:
    _start_service(server, "slurmd", "--stack=unlimited")


def _limit_memlock(server: FaultyServer) -> None:
    server.write_file(_PAM_LIMITS, "* - memlock 65536\n")
    _start_service(server, "slurmd", "--memlock=8388608")


def _enable_remove_ipc(server: FaultyServer) -> None:
    _start_service(server, "slurmd")
    server.write_file(_LOGIND, "[Login]\nRemoveIPC=yes\n")


def _limit_inotify(server: FaultyServer) -> None:
    _start_service(server, "containerd")
    server.write_file(f"{_INOTIFY}/max_user_instances", "128")


def _limit_rdma_cgroup(server: FaultyServer) -> None:
    """Limit RDMA objects in a cgroup; the controller covers soft-RoCE devices too."""
    Path("/sys/fs/cgroup/cgroup.subtree_control").write_text("+rdma")
    _CGROUP.mkdir(exist_ok=True)
    device = min(Path("/sys/class/infiniband").iterdir()).name
    server.write_file(str(_CGROUP / "rdma.max"), f"{device} hca_handle=2 hca_object=2000")


def _remove_cgroup(server: FaultyServer) -> None:
    server.saved.clear()
    _CGROUP.rmdir()


def _stop_slurmd(server: FaultyServer) -> None:
    stop_standin(server, "slurmd")


def _stop_containerd(server: FaultyServer) -> None:
    stop_standin(server, "containerd")


FAULTS: tuple[VmFault, ...] = (
    VmFault("limits-memlock-for-host-jobs", _limit_memlock, _stop_slurmd),
    VmFault("limits-nofile-low", _limit_files, _stop_containerd),
    VmFault("limits-stack-unlimited", _unlimit_stack, _stop_slurmd),
    VmFault("limits-removeipc", _enable_remove_ipc, _stop_slurmd),
    VmFault("limits-inotify-low", _limit_inotify, _stop_containerd),
    VmFault("limits-rdma-cgroup", _limit_rdma_cgroup, _remove_cgroup),
)
