"""RDMA devices of a port in sysfs; the checks of several steps use them.

A hardware device is a child of the port's PCI function. A software device (soft-RoCE) is a virtual device that names
its interface in a file (Documentation/ABI/stable/sysfs-class-infiniband).
"""

from typing import NamedTuple

from trackbed.host.snapshot.snapshot import Snapshot, Wanted

HARDWARE_DEVICES = "/sys/class/net/{netdev}/device/infiniband"
SOFT_DEVICES = "/sys/devices/virtual/infiniband"

READS = Wanted(
    files=(f"{SOFT_DEVICES}/*/parent", f"{SOFT_DEVICES}/*/ports/1/gid_attrs/ndevs/0"),
    folders=(SOFT_DEVICES, HARDWARE_DEVICES),
)


class SysfsRdmaDevice(NamedTuple):
    """One RDMA device with its folder in sysfs."""

    name: str
    folder: str
    is_soft: bool


def list_rdma_devices(host: Snapshot, netdev: str) -> tuple[SysfsRdmaDevice, ...]:
    """Return the port's RDMA devices; empty if it has none or they are in another namespace."""
    below = HARDWARE_DEVICES.format(netdev=netdev)
    hardware = [SysfsRdmaDevice(name, f"{below}/{name}", is_soft=False) for name in host.folders.get(below, ())]
    software = [
        SysfsRdmaDevice(name, f"{SOFT_DEVICES}/{name}", is_soft=True) for name in host.folders.get(SOFT_DEVICES, ())
    ]
    return tuple(hardware) or tuple(device for device in software if _read_soft_netdev(host, device.folder) == netdev)


def _read_soft_netdev(host: Snapshot, folder: str) -> str | None:
    """Return the interface of a software device, from `parent` (soft-RoCE) or from the attributes of its first GID."""
    return host.read_text(f"{folder}/parent") or host.read_text(f"{folder}/ports/1/gid_attrs/ndevs/0")
