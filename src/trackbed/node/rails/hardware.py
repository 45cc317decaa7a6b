"""Sysfs readers for a node's ports and their VFs: interfaces, RDMA devices, NUMA nodes.

    class/net/PORT/device/virtfnN          VF N of a port (Documentation/ABI/testing/sysfs-bus-pci)
    .../net/NAME, .../infiniband/NAME      its interface and its RDMA device, while they are in this namespace
    class/infiniband/NAME/parent           of a software device (rxe, siw): the interface below it

No function fails because a file is missing, since VFs come and go at any time.
"""

from contextlib import suppress
from pathlib import Path

SYSFS = Path("/sys")


def locate_port(netdev: str, sysfs: Path = SYSFS) -> Path:
    """Return the device folder of a port."""
    return sysfs / "class/net" / netdev / "device"


def locate_vf(netdev: str, number: int, sysfs: Path = SYSFS) -> Path:
    """Return the device folder of a VF."""
    return locate_port(netdev, sysfs) / f"virtfn{number}"


def read_interface(device: Path) -> str | None:
    """Return the name of a device's interface; None while it has none in this namespace."""
    return _read_first_name(device / "net")


def read_rdma_device(device: Path) -> str | None:
    """Return the name of a device's RDMA device; None while it has none in this namespace."""
    return _read_first_name(device / "infiniband")


def find_soft_rdma_device(netdev: str, sysfs: Path = SYSFS) -> str | None:
    """Return the name of the software RDMA device on an interface, or None."""
    for folder in _list_folder(sysfs / "class/infiniband"):
        with suppress(OSError):
            if (folder / "parent").read_text().strip() == netdev:
                return folder.name
    return None


def read_numa_node(device: Path) -> int | None:
    """Return the NUMA node of a device; None where the machine has none or the device is missing."""
    with suppress(OSError, ValueError):
        number = int((device / "numa_node").read_text())
        return number if number >= 0 else None
    return None


def _read_first_name(folder: Path) -> str | None:
    return next((path.name for path in _list_folder(folder)), None)


def _list_folder(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.iterdir())
    return []
