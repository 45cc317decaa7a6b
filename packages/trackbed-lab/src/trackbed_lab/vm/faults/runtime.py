"""Faults of the step runtime, made in an emulated server.

It has no containerd: a stand-in under its name and files of its configuration stand for it. With a network
configuration and no limit on locked memory that server is sound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed_lab.vm.faults.fault import VmFault
from trackbed_lab.vm.faults.standins import ended, started

if TYPE_CHECKING:
    from trackbed_lab.vm.faults.fault import Server

_NETWORK = "/etc/cni/net.d/10-lab.conflist"
_SPEC = '{"cdiVersion": "0.6.0", "kind": "example.com/rail", "devices": [{"name": "rail0"}]}'


def _running(server: Server, *limits: str) -> None:
    server.write("/proc/sys/fs/file-max", "2097152")
    server.write("/proc/sys/fs/inotify/max_user_instances", "8192")
    server.write("/proc/sys/fs/inotify/max_user_watches", "1048576")
    server.write(_NETWORK, "{}")
    started("containerd", *limits)


def _locked(server: Server) -> None:
    _running(server, "--memlock=8388608")


def _no_network(server: Server) -> None:
    _running(server)
    server.remove(_NETWORK)


def _no_cdi(server: Server) -> None:
    _running(server)
    server.write("/etc/cdi/lab.json", _SPEC)
    config = "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n"
    server.write("/etc/containerd/config.toml", config)


def _broken(server: Server) -> None:
    _running(server)
    server.write("/etc/cdi/lab.json", _SPEC[:40])


def _stopped(server: Server) -> None:
    ended(server, "containerd")


FAULTS: tuple[VmFault, ...] = (
    VmFault("runtime-memlock-low", _locked, _stopped),
    VmFault("runtime-cni-not-initialized", _no_network, _stopped),
    VmFault("runtime-cdi-disabled", _no_cdi, _stopped),
    VmFault("runtime-cdi-spec-missing", _broken, _stopped),
)
