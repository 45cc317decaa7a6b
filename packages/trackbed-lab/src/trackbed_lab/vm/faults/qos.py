"""Faults of the step qos, made in an emulated server: rdma_cm's default class for soft-RoCE devices, in configfs.

Its NICs have no data center bridging and no counters by priority, and soft-RoCE knows no RoCE v1; those faults are
tried on recorded hosts only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed_lab.vm.faults.fault import VmFault
from trackbed_lab.vm.faults.rdma import find_device_name

if TYPE_CHECKING:
    from trackbed_lab.vm.faults.fault import FaultyServer


def _other_class(server: FaultyServer) -> None:
    """Documentation/ABI/testing/configfs-rdma_cm."""
    server.write(f"/sys/kernel/config/rdma_cm/{find_device_name(server, server.port)}/ports/1/default_roce_tos", "0")


FAULTS: tuple[VmFault, ...] = (VmFault("qos-rdma-cm-tos-wrong", _other_class),)
