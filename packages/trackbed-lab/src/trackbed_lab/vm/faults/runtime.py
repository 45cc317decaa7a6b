"""Faults of the step runtime, injected in an emulated server.

There is no containerd; a process of its name and its configuration files stand in for it. With a network configuration
and without a limit on locked memory doctor finds nothing.
"""

from trackbed_lab.vm.faults.fault import FaultyServer, VmFault
from trackbed_lab.vm.faults.standins import start_standin, stop_standin

_NETWORK = "/etc/cni/net.d/10-lab.conflist"
_SPEC = '{"cdiVersion": "0.6.0", "kind": "example.com/rail", "devices": [{"name": "rail0"}]}'


def _start_containerd(server: FaultyServer, *limits: str) -> None:
    server.write_file("/proc/sys/fs/file-max", "2097152")
    server.write_file("/proc/sys/fs/inotify/max_user_instances", "8192")
    server.write_file("/proc/sys/fs/inotify/max_user_watches", "1048576")
    server.write_file(_NETWORK, "{}")
    start_standin("containerd", *limits)


def _limit_memlock(server: FaultyServer) -> None:
    _start_containerd(server, "--memlock=8388608")


def _remove_network(server: FaultyServer) -> None:
    _start_containerd(server)
    server.remove_file(_NETWORK)


def _disable_cdi(server: FaultyServer) -> None:
    _start_containerd(server)
    server.write_file("/etc/cdi/lab.json", _SPEC)
    config = "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n"
    server.write_file("/etc/containerd/config.toml", config)


def _truncate_spec(server: FaultyServer) -> None:
    _start_containerd(server)
    server.write_file("/etc/containerd/config.toml", "version = 3\n")  # without one CDI is off, as before containerd 2
    server.write_file("/etc/cdi/lab.json", _SPEC[:40])


def _stop_containerd(server: FaultyServer) -> None:
    stop_standin(server, "containerd")


FAULTS: tuple[VmFault, ...] = (
    VmFault("runtime-memlock-low", _limit_memlock, _stop_containerd),
    VmFault("runtime-cni-not-initialized", _remove_network, _stop_containerd),
    VmFault("runtime-cdi-disabled", _disable_cdi, _stop_containerd),
    VmFault("runtime-cdi-spec-missing", _truncate_spec, _stop_containerd),
)
