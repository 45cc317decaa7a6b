"""Faults of step bios, made in an emulated server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trackbed_lab.vm.faults.fault import VmFault
from trackbed_lab.vm.faults.ways import (
    clear_kernel_log,
    configure_port,
    cover,
    locate_device,
    uncover,
    write_kernel_log,
)

if TYPE_CHECKING:
    from trackbed_lab.vm.faults.fault import FaultyServer


def _removed(server: FaultyServer) -> None:
    (locate_device(server) / "remove").write_text("1")


def _found(server: FaultyServer) -> None:
    Path("/sys/bus/pci/rescan").write_text("1")
    configure_port(server)


def _without_node(server: FaultyServer) -> None:
    server.write(str(locate_device(server) / "numa_node"), "-1")


def _no_room(_: FaultyServer) -> None:
    write_kernel_log("pci_bus 0000:10: Some PCI device resources are unassigned, try booting with pci=realloc")


def _weak_slot(server: FaultyServer) -> None:
    write_kernel_log(f"mlx5_core {server.port.pci}: port_module: Detected insufficient power on the PCIe slot (25W).")


def _bars(server: FaultyServer) -> None:
    """Lines 8 to 13 are the VFs' (include/linux/pci.h)."""
    lines = (locate_device(server) / "resource").read_text().splitlines()
    nothing = " ".join(["0x0000000000000000"] * 3)
    cover(server, locate_device(server) / "resource", "\n".join([*lines[:7], *[nothing] * 6]) + "\n")


def _bars_back(server: FaultyServer) -> None:
    uncover(server, locate_device(server) / "resource")


def _errors(server: FaultyServer) -> None:
    cover(server, locate_device(server) / "aer_dev_nonfatal", "Undefined 0\nCmpltTO 3\nTOTAL_ERR_NONFATAL 3\n")


def _no_errors(server: FaultyServer) -> None:
    uncover(server, locate_device(server) / "aer_dev_nonfatal")


FAULTS: tuple[VmFault, ...] = (
    VmFault("bios-port-pci-absent", _removed, _found),
    VmFault("bios-above-4g-off", _no_room, clear_kernel_log),
    VmFault("bios-vf-bars-unassigned", _bars, _bars_back),
    VmFault("bios-slot-power-insufficient", _weak_slot, clear_kernel_log),
    VmFault("bios-pcie-errors", _errors, _no_errors),
    VmFault("bios-numa-node-unknown", _without_node),
)
