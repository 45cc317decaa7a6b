"""Faults of step drivers, made in an emulated server: its NICs have a real driver (igb)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trackbed_lab.vm.faults.fault import VmFault
from trackbed_lab.vm.faults.ways import clear_kernel_log, configure_port, locate_device, write_kernel_log

if TYPE_CHECKING:
    from trackbed_lab.vm.faults.fault import FaultyServer

_PROBE = Path("/sys/bus/pci/drivers_probe")


def _unbound(server: FaultyServer) -> None:
    place = locate_device(server)
    (place / "driver/unbind").write_text(place.name)


def _bound(server: FaultyServer) -> None:
    _PROBE.write_text(locate_device(server).name)
    configure_port(server)


def _kept(server: FaultyServer) -> None:
    """For a virtual machine, say: the driver is told to leave the function alone."""
    (locate_device(server) / "driver_override").write_text("vfio-pci")
    _unbound(server)


def _given_back(server: FaultyServer) -> None:
    (locate_device(server) / "driver_override").write_text("\n")
    _bound(server)


def _refused(server: FaultyServer) -> None:
    place = locate_device(server).name.partition(":")[2]
    write_kernel_log(f"DMAR: [DMA Read NO_PASID] Request device [{place}] fault addr 0xfd000000 [fault reason 0x06]")


FAULTS: tuple[VmFault, ...] = (
    VmFault("driver-not-bound", _kept, _given_back),
    VmFault("driver-iommu-page-faults", _refused, clear_kernel_log),
)
