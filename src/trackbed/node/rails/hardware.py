"""What sysfs tells of a node's ports and their VFs: interfaces, RDMA devices, NUMA nodes.

    class/net/PORT/device/virtfnN          VF N of a port (Documentation/ABI/testing/sysfs-bus-pci)
    .../net/NAME, .../infiniband/NAME      its interface and its RDMA device, while they are in this namespace
    class/infiniband/NAME/parent           of a software device (rxe, siw): the interface that it rides on

Nothing here fails because something is missing: a VF comes and goes while one looks.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

SYSFS = Path("/sys")


def port(netdev: str, sysfs: Path = SYSFS) -> Path:
    """The folder of a port's device."""
    return sysfs / "class/net" / netdev / "device"


def vf(netdev: str, number: int, sysfs: Path = SYSFS) -> Path:
    """The folder of a VF's device."""
    return port(netdev, sysfs) / f"virtfn{number}"


def interface(device: Path) -> str | None:
    """The interface of a device; None while it has none here."""
    return _first(device / "net")


def rdma_device(device: Path) -> str | None:
    """The RDMA device of a device; None while it has none here."""
    return _first(device / "infiniband")


def soft_rdma_device(netdev: str, sysfs: Path = SYSFS) -> str | None:
    """The software RDMA device on an interface."""
    for folder in _listed(sysfs / "class/infiniband"):
        with suppress(OSError):
            if (folder / "parent").read_text().strip() == netdev:
                return folder.name
    return None


def numa_node(device: Path) -> int | None:
    """The NUMA node of a device; None where the machine has none or the device is away."""
    with suppress(OSError, ValueError):
        number = int((device / "numa_node").read_text())
        return number if number >= 0 else None
    return None


def _first(folder: Path) -> str | None:
    return next((one.name for one in _listed(folder)), None)


def _listed(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.iterdir())
    return []
