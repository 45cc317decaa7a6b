"""Faults of step cmdline, made in an emulated server that was started with the planned arguments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trackbed_lab.vm.faults.fault import FaultError, VmFault
from trackbed_lab.vm.faults.ways import cover, locate_device, uncover

if TYPE_CHECKING:
    from trackbed_lab.vm.faults.fault import FaultyServer

_CMDLINE = "/proc/cmdline"
_ISOLATED = "/sys/devices/system/cpu/isolated"


def _forgotten(server: FaultyServer) -> None:
    """As if the boot loader had never been told."""
    words = Path(_CMDLINE).read_text().split()
    ours = ("hugepages", "default_hugepagesz", "isolcpus", "nohz_full", "rcu_nocbs")
    cover(server, _CMDLINE, " ".join(word for word in words if not word.startswith(ours)) + "\n")


def _known(server: FaultyServer) -> None:
    uncover(server, _CMDLINE)


def _translated(server: FaultyServer) -> None:
    cover(server, locate_device(server) / "iommu_group/type", "DMA-FQ\n")


def _identity(server: FaultyServer) -> None:
    uncover(server, locate_device(server) / "iommu_group/type")


def _pages(server: FaultyServer) -> tuple[str, int]:
    """Folder name and count of the first planned size."""
    kernel = server.node.common.kernel
    if kernel is None or not kernel.hugepages:
        raise FaultError("the plan has no huge pages: kernel.hugepages of the Fabric")
    size_kib, count = kernel.hugepages[0]
    return f"hugepages-{size_kib}kB", count


def _given_back(server: FaultyServer) -> None:
    size, _ = _pages(server)
    server.write(f"/sys/kernel/mm/hugepages/{size}/nr_hugepages", "0")


def _one_node(server: FaultyServer) -> None:
    """More on the first node before fewer on the second: the total never falls short."""
    size, count = _pages(server)
    server.write(f"/sys/devices/system/node/node0/hugepages/{size}/nr_hugepages", str(count))
    server.write(f"/sys/devices/system/node/node1/hugepages/{size}/nr_hugepages", "0")


def _isolated(server: FaultyServer) -> None:
    cover(server, _ISOLATED, "1\n")


def _balanced(server: FaultyServer) -> None:
    uncover(server, _ISOLATED)


FAULTS: tuple[VmFault, ...] = (
    VmFault("cmdline-not-applied", _forgotten, _known),
    VmFault("cmdline-iommu-translated", _translated, _identity),
    VmFault("cmdline-hugepages-short", _given_back),
    VmFault("cmdline-hugepages-one-node", _one_node),
    VmFault("cmdline-isolcpus-under-pods", _isolated, _balanced),
)
