"""Faults of the step drivers, injected in an emulated server, whose NICs have a real driver (igb)."""

from pathlib import Path

from trackbed_lab.vm.faults.fault import FaultyServer, VmFault
from trackbed_lab.vm.faults.helpers import clear_kernel_log, configure_port, locate_device, write_kernel_log

_PROBE = Path("/sys/bus/pci/drivers_probe")


def _override_driver(server: FaultyServer) -> None:
    """Reserve the function for another driver and unbind it, as a virtual machine manager would."""
    device = locate_device(server)
    (device / "driver_override").write_text("vfio-pci")
    (device / "driver/unbind").write_text(device.name)


def _rebind_driver(server: FaultyServer) -> None:
    device = locate_device(server)
    (device / "driver_override").write_text("\n")
    _PROBE.write_text(device.name)
    configure_port(server)


def _log_dma_fault(server: FaultyServer) -> None:
    address = locate_device(server).name.partition(":")[2]
    write_kernel_log(f"DMAR: [DMA Read NO_PASID] Request device [{address}] fault addr 0xfd000000 [fault reason 0x06]")


FAULTS: tuple[VmFault, ...] = (
    VmFault("driver-not-bound", _override_driver, _rebind_driver),
    VmFault("driver-iommu-page-faults", _log_dma_fault, clear_kernel_log),
)
