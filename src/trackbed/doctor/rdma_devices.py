"""The RDMA devices of a port, as sysfs lists them, for the checks of several steps.

A hardware device is a child of the port's PCI function. A software device (soft-RoCE) is a virtual device that names
its interface in a file (Documentation/ABI/stable/sysfs-class-infiniband).
"""

from typing import NamedTuple

from trackbed.host.snapshot.snapshot import Snapshot, Wanted

BELOW = "/sys/class/net/{netdev}/device/infiniband"
VIRTUAL = "/sys/devices/virtual/infiniband"

READS = Wanted(
    files=(f"{VIRTUAL}/*/parent", f"{VIRTUAL}/*/ports/1/gid_attrs/ndevs/0"),
    folders=(VIRTUAL, BELOW),
)


class SysfsRdmaDevice(NamedTuple):
    """One RDMA device with its folder in sysfs."""

    name: str
    folder: str
    is_soft: bool


def list_rdma_devices(host: Snapshot, netdev: str) -> tuple[SysfsRdmaDevice, ...]:
    """Return the port's RDMA devices; empty where it has none or they are in another namespace."""
    below = BELOW.format(netdev=netdev)
    hardware = [SysfsRdmaDevice(name, f"{below}/{name}", is_soft=False) for name in host.folders.get(below, ())]
    software = [SysfsRdmaDevice(name, f"{VIRTUAL}/{name}", is_soft=True) for name in host.folders.get(VIRTUAL, ())]
    return tuple(hardware) or tuple(device for device in software if _read_netdev(host, device.folder) == netdev)


def _read_netdev(host: Snapshot, folder: str) -> str | None:
    """Return the interface of a software device: soft-RoCE has it in `parent`, others with their first GID."""
    return host.read_text(f"{folder}/parent") or host.read_text(f"{folder}/ports/1/gid_attrs/ndevs/0")
