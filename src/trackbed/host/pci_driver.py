"""Binding of PCI functions to their drivers (Documentation/ABI/testing/sysfs-bus-pci), and waiting for interfaces.

A VF's driver reads its MAC address and GUID when it is bound: mlx5 from its vport's context, which holds what the port
set (mlx5_esw_set_vport_mac_locked, drivers/net/ethernet/mellanox/mlx5/core/eswitch.c); igbvf asks its port (igb says
"Reload the VF driver to make this change effective").
"""

from __future__ import annotations

import time
from pathlib import Path

from trackbed.host.machine import Machine

WAIT_SECONDS = 20.0
"""Time for a driver to be loaded by udev and to create an interface; the SR-IOV operator waits 10 s (VFIsReady)."""
_POLL_SECONDS = 0.05
_PROBE = "/sys/bus/pci/drivers_probe"


def rebind_function(machine: Machine, folder: str) -> str:
    """Unbind a PCI function from its driver, bind it again, and wait for its interface.

    `folder` is the function's in sysfs. A function without a driver is only bound. Return the reason of a failure as
    text, empty on success.
    """
    pci = machine.locate(folder).resolve().name
    try:
        if driver := find_driver(machine, folder):
            machine.write_attribute(f"/sys/bus/pci/drivers/{driver}/unbind", pci)
        machine.write_attribute(_PROBE, pci)
    except OSError as error:
        return f"the driver of {pci} cannot be bound: {error.strerror}"
    if _wait_for_interfaces([machine.locate(folder)]):
        return ""
    return f"{pci} has no interface {WAIT_SECONDS:.0f} s after its driver was bound"


def wait_for_vf_interfaces(machine: Machine, folder: str) -> None:
    """Wait until each VF of the port with this folder has an interface; VFs without one after WAIT_SECONDS are left."""
    _wait_for_interfaces(sorted(machine.locate(folder).glob("virtfn*")))


def find_driver(machine: Machine, folder: str) -> str:
    """Return the name of a function's driver; empty if it has none."""
    link = machine.locate(f"{folder}/driver")
    return link.resolve().name if link.exists() else ""


def _wait_for_interfaces(functions: list[Path]) -> bool:
    deadline = time.monotonic() + WAIT_SECONDS
    while not all(any((function / "net").glob("*")) for function in functions):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
