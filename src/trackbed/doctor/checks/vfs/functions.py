"""Virtual functions of a port, from sysfs; the checks of several steps use them."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, takewhile

from trackbed.host.snapshot.snapshot import Snapshot, Wanted

DEVICE = "/sys/class/net/{netdev}/device"
_VF = f"{DEVICE}/virtfn*"

READS = Wanted(
    files=(
        f"{DEVICE}/sriov_numvfs",
        f"{DEVICE}/sriov_totalvfs",
        f"{DEVICE}/sriov_drivers_autoprobe",
        f"{_VF}/net/*/mtu",
        f"{_VF}/net/*/address",
        f"{_VF}/infiniband/*/node_guid",
    ),
    links=(_VF, f"{_VF}/driver", f"{DEVICE}/driver"),
    folders=(f"{_VF}/net", f"{_VF}/infiniband"),
)


@dataclass(frozen=True, slots=True)
class VirtualFunction:
    """One virtual function of a port."""

    index: int
    pci: str
    folder: str
    """Folder of the VF in sysfs, below its port."""
    driver: str | None
    netdevs: tuple[str, ...]
    """Interfaces of the VF in the host's network namespace; empty while it is in a pod or has no driver."""
    rdma_devices: tuple[str, ...]
    """RDMA devices of the VF in the host's network namespace."""


def get_device_folder(netdev: str) -> str:
    """Return the sysfs folder of the PCI function behind a port."""
    return DEVICE.format(netdev=netdev)


def read_vf_count(host: Snapshot, netdev: str) -> int | None:
    """Return the number of VFs of a port; None if its function has no SR-IOV, or if unreadable."""
    return host.read_number(f"{get_device_folder(netdev)}/sriov_numvfs")


def iter_vfs(host: Snapshot, netdev: str) -> Iterator[VirtualFunction]:
    """Yield the VFs of a port in order of index."""
    folders = (f"{get_device_folder(netdev)}/virtfn{index}" for index in count())
    for index, folder in enumerate(takewhile(host.links.__contains__, folders)):
        netdevs, rdma = (host.folders.get(f"{folder}/{name}", ()) for name in ("net", "infiniband"))
        yield VirtualFunction(
            index, host.get_target(folder) or "", folder, host.get_target(f"{folder}/driver"), netdevs, rdma
        )
