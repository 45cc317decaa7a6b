"""Which RDMA devices a port has, as sysfs says it, for the checks of several steps.

A device of hardware lies below the port's PCI function; one of software (soft-RoCE) is a virtual device and says which
interface it is on (Documentation/ABI/stable/sysfs-class-infiniband).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from trackbed.host.snapshot.snapshot import Snapshot

BELOW = "/sys/class/net/{netdev}/device/infiniband"
VIRTUAL = "/sys/devices/virtual/infiniband"

READS = Wanted(
    files=(f"{VIRTUAL}/*/parent", f"{VIRTUAL}/*/ports/1/gid_attrs/ndevs/0"),
    folders=(VIRTUAL, BELOW),
)


class RdmaDevice(NamedTuple):
    """One RDMA device, and its folder in sysfs."""

    name: str
    folder: str
    is_soft: bool


def list_rdma_devices(host: Snapshot, netdev: str) -> tuple[RdmaDevice, ...]:
    """The port's RDMA devices; none where it has none, or it is in another namespace."""
    below = BELOW.format(netdev=netdev)
    hard = [RdmaDevice(name, f"{below}/{name}", is_soft=False) for name in host.folders.get(below, ())]
    soft = [RdmaDevice(name, f"{VIRTUAL}/{name}", is_soft=True) for name in host.folders.get(VIRTUAL, ())]
    return tuple(hard) or tuple(device for device in soft if _on(host, device.folder) == netdev)


def _on(host: Snapshot, folder: str) -> str | None:
    """Soft-RoCE has the interface in `parent`; other software has it with its first GID."""
    return host.text(f"{folder}/parent") or host.text(f"{folder}/ports/1/gid_attrs/ndevs/0")
