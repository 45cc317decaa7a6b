"""Nearness of two PCIe devices in the terms of nvidia-smi: PIX, PXB, PHB, NODE, SYS."""

from __future__ import annotations

from enum import IntEnum
from itertools import takewhile

from trackbed.host.discover.inventory import Gpu, Inventory, Nic

_ONE_SWITCH = 4
"""From one device up to a switch and down to another: each has its own port of the switch."""


class Proximity(IntEnum):
    """How close two PCI devices are; a lower value is closer (as `nvidia-smi topo -m` names them)."""

    PIX = 0
    """Behind one PCIe switch."""
    PXB = 1
    """Behind several switches of one tree; traffic between them never meets the CPU."""
    PHB = 2
    """Below one host bridge: traffic goes through the CPU."""
    NODE = 3
    """At one NUMA node."""
    SYS = 4
    """Across sockets, or unknown."""

    @property
    def switched(self) -> bool:
        """Whether traffic between the two stays in switches."""
        return self <= Proximity.PXB


def find_nearness(inventory: Inventory, gpu: Gpu, nic: Nic) -> Proximity:
    """Return the nearness by the PCIe tree, or by nvidia-smi where that is nearer (a VM hides the tree)."""
    by_path = _compare_paths(gpu, nic)
    reported = inventory.matrix.get(gpu.pci, {}).get(nic.pci)
    return min(by_path, Proximity[reported]) if reported is not None and reported in Proximity.__members__ else by_path


def count_hops(gpu: Gpu, nic: Nic) -> int:
    """Return the number of PCIe links between the two."""
    shared = _count_shared(gpu, nic)
    return len(gpu.path) + len(nic.path) - 2 * shared


def _compare_paths(gpu: Gpu, nic: Nic) -> Proximity:
    shared = _count_shared(gpu, nic)
    if shared > 1:
        return Proximity.PIX if count_hops(gpu, nic) <= _ONE_SWITCH else Proximity.PXB
    if shared:
        return Proximity.PHB
    return Proximity.NODE if gpu.numa is not None and gpu.numa == nic.numa else Proximity.SYS


def _count_shared(gpu: Gpu, nic: Nic) -> int:
    pairs = zip(gpu.path, nic.path, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
