"""Proximity of two PCIe devices in the terms of nvidia-smi: PIX, PXB, PHB, NODE, SYS."""

from enum import IntEnum
from itertools import takewhile

from trackbed.host.discover.inventory import Gpu, Inventory, Nic

_MAX_HOPS_ONE_SWITCH = 4
"""Number of PCIe links between two devices below one switch, where each device is behind its own downstream port."""


class Proximity(IntEnum):
    """How close two PCI devices are, in the terms of `nvidia-smi topo -m`; a lower value is closer."""

    PIX = 0
    """Behind one PCIe switch."""
    PXB = 1
    """Behind several switches of one tree; traffic between them does not reach the CPU."""
    PHB = 2
    """Below one host bridge; traffic goes through the CPU."""
    NODE = 3
    """On one NUMA node."""
    SYS = 4
    """Across sockets, or unknown."""

    @property
    def is_switched(self) -> bool:
        """Whether traffic between the two devices stays within PCIe switches."""
        return self <= Proximity.PXB


def find_proximity(inventory: Inventory, gpu: Gpu, nic: Nic) -> Proximity:
    """Return the proximity in the PCIe tree, or that of nvidia-smi if it is closer, because a VM hides the tree."""
    by_path = _compare_paths(gpu, nic)
    reported = inventory.matrix.get(gpu.pci, {}).get(nic.pci)
    return min(by_path, Proximity[reported]) if reported is not None and reported in Proximity.__members__ else by_path


def count_hops(gpu: Gpu, nic: Nic) -> int:
    """Return the number of PCIe links between a GPU and a NIC."""
    shared = _count_shared_path(gpu, nic)
    return len(gpu.path) + len(nic.path) - 2 * shared


def _compare_paths(gpu: Gpu, nic: Nic) -> Proximity:
    shared = _count_shared_path(gpu, nic)
    if shared > 1:
        return Proximity.PIX if count_hops(gpu, nic) <= _MAX_HOPS_ONE_SWITCH else Proximity.PXB
    if shared:
        return Proximity.PHB
    return Proximity.NODE if gpu.numa is not None and gpu.numa == nic.numa else Proximity.SYS


def _count_shared_path(gpu: Gpu, nic: Nic) -> int:
    pairs = zip(gpu.path, nic.path, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
