"""Sysfs readers for a node's ports and their VFs: interfaces, RDMA devices, NUMA nodes.

    class/net/PORT/device/virtfnN          VF N of a port (Documentation/ABI/testing/sysfs-bus-pci)
    .../net/NAME, .../infiniband/NAME      its interface and its RDMA device, while they are in this namespace
    class/infiniband/NAME/parent           of a software device (rxe, siw): the interface below it
    class/infiniband_verbs/FILE/ibdev      of a device file: its RDMA device

A missing file is not an error, since VFs appear and disappear at any time.
"""

from contextlib import suppress
from pathlib import Path

SYSFS = Path("/sys")


def locate_port(netdev: str, sysfs: Path = SYSFS) -> Path:
    """Return the sysfs folder of a port's device."""
    return sysfs / "class/net" / netdev / "device"


def locate_vf(netdev: str, vf: int, sysfs: Path = SYSFS) -> Path:
    """Return the sysfs folder of a VF's device."""
    return locate_port(netdev, sysfs) / f"virtfn{vf}"


def read_interface_name(device_folder: Path) -> str | None:
    """Return the name of a device's interface, or None while the interface is in another namespace."""
    return _read_first_name(device_folder / "net")


def read_rdma_device_name(device_folder: Path) -> str | None:
    """Return the name of a device's RDMA device, or None if it has none in this namespace."""
    return _read_first_name(device_folder / "infiniband")


def read_node_guid(device_folder: Path) -> str:
    """Return the node GUID of a device's RDMA device; empty without one, or if it is 0."""
    name = read_rdma_device_name(device_folder)
    with suppress(OSError):
        guid = (device_folder / "infiniband" / (name or "") / "node_guid").read_text().strip()
        return guid if guid.strip("0:") else ""
    return ""


def find_soft_rdma_device_name(netdev: str, sysfs: Path = SYSFS) -> str | None:
    """Return the name of the software RDMA device on an interface, or None."""
    for folder in _list_folder(sysfs / "class/infiniband"):
        with suppress(OSError):
            if (folder / "parent").read_text().strip() == netdev:
                return folder.name
    return None


def find_verbs_device_name(rdma_name: str, sysfs: Path = SYSFS) -> str | None:
    """Return the name of the device file of an RDMA device, such as uverbs0; None if it has none."""
    for folder in _list_folder(sysfs / "class/infiniband_verbs"):
        with suppress(OSError):
            if (folder / "ibdev").read_text().strip() == rdma_name:
                return folder.name
    return None


def read_numa_node(device_folder: Path) -> int | None:
    """Return the NUMA node of a device; None if the machine has no NUMA nodes or the device is missing."""
    with suppress(OSError, ValueError):
        number = int((device_folder / "numa_node").read_text())
        return number if number >= 0 else None
    return None


def _read_first_name(folder: Path) -> str | None:
    return next((path.name for path in _list_folder(folder)), None)


def _list_folder(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.iterdir())
    return []
