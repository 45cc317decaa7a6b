"""Faults of step drivers, made in an emulated server: its NICs have a real driver (igb)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trackbed_lab.vm.faults.fault import VmFault
from trackbed_lab.vm.faults.ways import device, emptied, logged, set_up

if TYPE_CHECKING:
    from trackbed_lab.vm.faults.fault import Server

_PROBE = Path("/sys/bus/pci/drivers_probe")


def _unbound(server: Server) -> None:
    place = device(server)
    (place / "driver/unbind").write_text(place.name)


def _bound(server: Server) -> None:
    _PROBE.write_text(device(server).name)
    set_up(server)


def _kept(server: Server) -> None:
    """For a virtual machine, say: the driver is told to leave the function alone."""
    (device(server) / "driver_override").write_text("vfio-pci")
    _unbound(server)


def _given_back(server: Server) -> None:
    (device(server) / "driver_override").write_text("\n")
    _bound(server)


def _refused(server: Server) -> None:
    place = device(server).name.partition(":")[2]
    logged(f"DMAR: [DMA Read NO_PASID] Request device [{place}] fault addr 0xfd000000 [fault reason 0x06]")


FAULTS: tuple[VmFault, ...] = (
    VmFault("driver-not-bound", _kept, _given_back),
    VmFault("driver-iommu-page-faults", _refused, emptied),
)
