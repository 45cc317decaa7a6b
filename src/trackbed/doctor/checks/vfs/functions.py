"""Virtual functions as sysfs shows them under their port, for all checks of this step."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, takewhile
from typing import TYPE_CHECKING

from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.host.snapshot.snapshot import Snapshot

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
    """Where sysfs has it, under its port."""
    driver: str | None
    netdevs: tuple[str, ...]
    """Its interfaces in the host's namespace: none while it is in a pod, or has no driver."""
    rdma: tuple[str, ...]


def get_device_folder(netdev: str) -> str:
    """The folder of the PCI function behind a port."""
    return DEVICE.format(netdev=netdev)


def read_vf_count(host: Snapshot, netdev: str) -> int | None:
    """How many VFs the port has; None where its function offers none, or nobody read it."""
    return host.number(f"{get_device_folder(netdev)}/sriov_numvfs")


def iter_vfs(host: Snapshot, netdev: str) -> Iterator[VirtualFunction]:
    """The VFs of a port, in their order."""
    places = (f"{get_device_folder(netdev)}/virtfn{index}" for index in count())
    for index, place in enumerate(takewhile(host.links.__contains__, places)):
        netdevs, rdma = (host.folders.get(f"{place}/{name}", ()) for name in ("net", "infiniband"))
        yield VirtualFunction(index, host.target(place) or "", place, host.target(f"{place}/driver"), netdevs, rdma)


def summarize(these: list[str], most: int = 4) -> str:
    """A few of them and how many more there are."""
    more = f" and {len(these) - most} more" if len(these) > most else ""
    return ", ".join(these[:most]) + more
