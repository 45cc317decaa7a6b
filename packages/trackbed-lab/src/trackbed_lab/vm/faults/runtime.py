"""Faults of the step runtime, made in an emulated server.

It has no containerd: a stand-in under its name and files of its configuration stand for it. With a network
configuration and no limit on locked memory that server is sound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed_lab.vm.faults.fault import VmFault
from trackbed_lab.vm.faults.standins import start_standin, stop_standin

if TYPE_CHECKING:
    from trackbed_lab.vm.faults.fault import FaultyServer

_NETWORK = "/etc/cni/net.d/10-lab.conflist"
_SPEC = '{"cdiVersion": "0.6.0", "kind": "example.com/rail", "devices": [{"name": "rail0"}]}'


def _running(server: FaultyServer, *limits: str) -> None:
    server.write("/proc/sys/fs/file-max", "2097152")
    server.write("/proc/sys/fs/inotify/max_user_instances", "8192")
    server.write("/proc/sys/fs/inotify/max_user_watches", "1048576")
    server.write(_NETWORK, "{}")
    start_standin("containerd", *limits)


def _locked(server: FaultyServer) -> None:
    _running(server, "--memlock=8388608")


def _no_network(server: FaultyServer) -> None:
    _running(server)
    server.remove(_NETWORK)


def _no_cdi(server: FaultyServer) -> None:
    _running(server)
    server.write("/etc/cdi/lab.json", _SPEC)
    config = "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n"
    server.write("/etc/containerd/config.toml", config)


def _broken(server: FaultyServer) -> None:
    _running(server)
    server.write("/etc/cdi/lab.json", _SPEC[:40])


def _stopped(server: FaultyServer) -> None:
    stop_standin(server, "containerd")


FAULTS: tuple[VmFault, ...] = (
    VmFault("runtime-memlock-low", _locked, _stopped),
    VmFault("runtime-cni-not-initialized", _no_network, _stopped),
    VmFault("runtime-cdi-disabled", _no_cdi, _stopped),
    VmFault("runtime-cdi-spec-missing", _broken, _stopped),
)
