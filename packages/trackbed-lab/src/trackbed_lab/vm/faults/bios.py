"""Faults of the step bios, injected in an emulated server."""

from pathlib import Path

from trackbed_lab.vm.faults.fault import FaultyServer, VmFault
from trackbed_lab.vm.faults.helpers import (
    clear_kernel_log,
    configure_port,
    cover_file,
    locate_device,
    uncover_file,
    write_kernel_log,
)


def _remove_function(server: FaultyServer) -> None:
    (locate_device(server) / "remove").write_text("1")


def _rescan_bus(server: FaultyServer) -> None:
    Path("/sys/bus/pci/rescan").write_text("1")
    configure_port(server)


def _clear_numa_node(server: FaultyServer) -> None:
    server.write_file(str(locate_device(server) / "numa_node"), "-1")


def _log_unassigned_resources(_: FaultyServer) -> None:
    write_kernel_log("pci_bus 0000:10: Some PCI device resources are unassigned, try booting with pci=realloc")


def _log_insufficient_power(server: FaultyServer) -> None:
    message = "port_module: Detected insufficient power on the PCIe slot (25W)."
    write_kernel_log(f"mlx5_core {server.port.pci}: {message}")


def _hide_vf_bars(server: FaultyServer) -> None:
    """Zero the BARs of the VFs, lines 8 to 13 of `resource` (include/linux/pci.h)."""
    resource = locate_device(server) / "resource"
    lines = resource.read_text().splitlines()
    unassigned = " ".join(["0x0000000000000000"] * 3)
    cover_file(server, resource, "\n".join([*lines[:7], *[unassigned] * 6]) + "\n")


def _show_vf_bars(server: FaultyServer) -> None:
    uncover_file(server, locate_device(server) / "resource")


def _report_pcie_errors(server: FaultyServer) -> None:
    cover_file(server, locate_device(server) / "aer_dev_nonfatal", "Undefined 0\nCmpltTO 3\nTOTAL_ERR_NONFATAL 3\n")


def _hide_pcie_errors(server: FaultyServer) -> None:
    uncover_file(server, locate_device(server) / "aer_dev_nonfatal")


FAULTS: tuple[VmFault, ...] = (
    VmFault("bios-port-pci-absent", _remove_function, _rescan_bus),
    VmFault("bios-above-4g-off", _log_unassigned_resources, clear_kernel_log),
    VmFault("bios-vf-bars-unassigned", _hide_vf_bars, _show_vf_bars),
    VmFault("bios-slot-power-insufficient", _log_insufficient_power, clear_kernel_log),
    VmFault("bios-pcie-errors", _report_pcie_errors, _hide_pcie_errors),
    VmFault("bios-numa-node-unknown", _clear_numa_node),
)
