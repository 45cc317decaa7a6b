"""Faults of the step qos, made in an emulated server: rdma_cm's defaults of soft-RoCE devices, in configfs.

Its NICs have no data center bridging and no counters by priority; those faults are tried on recorded hosts only.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trackbed.chain.qos import traffic_class
from trackbed.lab.vm.faults.fault import VmFault
from trackbed.lab.vm.faults.rdma import bare, name_of, soft

if TYPE_CHECKING:
    from trackbed.lab.vm.faults.fault import Server

_CONFIGFS = "/sys/kernel/config"


def _shown(server: Server) -> Path:
    """The port's device in configfs, as `trackbed apply` would have set it."""
    soft(server)
    server.run("modprobe", "rdma_cm")
    if not Path(_CONFIGFS, "rdma_cm").is_dir():
        server.run("mount", "-t", "configfs", "none", _CONFIGFS)
    folder = Path(_CONFIGFS, "rdma_cm", name_of(server, server.port))
    folder.mkdir(exist_ok=True)
    place = folder / "ports/1"
    (place / "default_roce_tos").write_text(str(traffic_class(server.node)))
    (place / "default_roce_mode").write_text("RoCE v2")
    return place


def _other_class(server: Server) -> None:
    (_shown(server) / "default_roce_tos").write_text("0")


def _other_mode(server: Server) -> None:
    (_shown(server) / "default_roce_mode").write_text("IB/RoCE v1")


def _hidden(server: Server) -> None:
    """Devices go after their folders: the kernel keeps a device that configfs shows."""
    Path(_CONFIGFS, "rdma_cm", name_of(server, server.port)).rmdir()
    bare(server)


FAULTS: tuple[VmFault, ...] = (
    VmFault("qos-rdma-cm-roce-v1", _other_mode, _hidden),
    VmFault("qos-rdma-cm-tos-wrong", _other_class, _hidden),
)
