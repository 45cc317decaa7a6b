"""What host checks look at beside the network: files, links, programs, and what netlink says of VFs and bridging."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from trackbed.doctor.checks import READS
from trackbed.host.snapshot.take import for_ports, take
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.dcb import Dcb, get_dcb
from trackbed.kernel.netlink.vfs import VfListing, get_vfs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trackbed.fabric.plan.plan import NodePlan
    from trackbed.host.machine import Machine
    from trackbed.host.snapshot.snapshot import Snapshot, Wanted
    from trackbed.kernel.netlink.sockets import Socket

_T = TypeVar("_T")


def take_snapshot(machine: Machine, node: NodePlan) -> Snapshot | None:
    """What the host checks want to see; None where the host is not this machine's own (a namespace, a container)."""
    if machine.shared or not machine.path("/proc/cmdline").exists():
        return None
    return take(machine, collect_reads(machine, node))


def collect_reads(machine: Machine, node: NodePlan) -> Wanted:
    """What the host checks want to see of a node's machine."""
    return for_ports(READS, {port.netdev: port.pci or _pci(machine, port.netdev) for port in node.ports})


def read_vfs(machine: Machine, netdevs: Iterable[str]) -> dict[str, VfListing]:
    """The VFs of each interface whose driver tells."""
    return _asked(machine, netdevs, get_vfs)


def read_dcb(machine: Machine, netdevs: Iterable[str]) -> dict[str, Dcb]:
    """The data center bridging of each interface whose driver tells."""
    return _asked(machine, netdevs, get_dcb)


def _asked(machine: Machine, netdevs: Iterable[str], ask: Callable[[Socket, str], _T]) -> dict[str, _T]:
    found = {}
    with machine.socket() as sock:
        for name in netdevs:
            with suppress(NetlinkError):
                found[name] = ask(sock, name)
    return found


def _pci(machine: Machine, netdev: str) -> str | None:
    try:
        return machine.path(f"/sys/class/net/{netdev}/device").readlink().name
    except (OSError, ValueError):
        return None
