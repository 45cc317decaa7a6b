"""Faults of the host that are injected for real inside an emulated server, one module for each step."""

from __future__ import annotations

from trackbed_lab.vm.faults import (
    addresses,
    bios,
    cmdline,
    drivers,
    firmware,
    kubelet,
    limits,
    names,
    qos,
    rdma,
    routing,
    runtime,
    vfs,
)
from trackbed_lab.vm.faults.fault import VmFault

FAULTS: tuple[VmFault, ...] = (
    *bios.FAULTS,
    *cmdline.FAULTS,
    *firmware.FAULTS,
    *drivers.FAULTS,
    *rdma.FAULTS,
    *vfs.FAULTS,
    *names.FAULTS,
    *addresses.FAULTS,
    *routing.FAULTS,
    *qos.FAULTS,
    *limits.FAULTS,
    *kubelet.FAULTS,
    *runtime.FAULTS,
)
"""All faults, in the order of the chain."""
