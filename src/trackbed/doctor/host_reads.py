"""Reading of a host for its checks: files, links, output of programs, and netlink data of VFs and DCB."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from trackbed.doctor.checks import READS
from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.machine import Machine
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.snapshot.take import expand_ports, read_snapshot
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.dcb import Dcb, get_dcb
from trackbed.kernel.netlink.sockets import Socket
from trackbed.kernel.netlink.vfs import VfListing, get_vfs

_T = TypeVar("_T")


def take_snapshot(machine: Machine, node: NodePlan) -> Snapshot | None:
    """Return a snapshot of everything that host checks need; None if the machine shares its host (a container)."""
    if machine.shared_reason or not machine.locate("/proc/cmdline").exists():
        return None
    return read_snapshot(machine, build_wanted(machine, node))


def build_wanted(machine: Machine, node: NodePlan) -> Wanted:
    """Return what host checks need to read, with the names and PCI addresses of the node's ports filled in."""
    return expand_ports(READS, {port.netdev: port.pci or find_pci(machine, port.netdev) for port in node.ports})


def read_vfs(machine: Machine, netdevs: Iterable[str]) -> dict[str, VfListing]:
    """Return the VFs of each interface whose driver reports them."""
    return _query_links(machine, netdevs, get_vfs)


def read_dcb(machine: Machine, netdevs: Iterable[str]) -> dict[str, Dcb]:
    """Return the data center bridging of each interface whose driver reports it."""
    return _query_links(machine, netdevs, get_dcb)


def _query_links(machine: Machine, netdevs: Iterable[str], query: Callable[[Socket, str], _T]) -> dict[str, _T]:
    """Return the query's result for each interface; interfaces that the kernel refuses are left out."""
    results = {}
    with machine.open_socket() as sock:
        for netdev in netdevs:
            with suppress(NetlinkError):
                results[netdev] = query(sock, netdev)
    return results


def find_pci(machine: Machine, netdev: str) -> str | None:
    """Return the PCI address of an interface; None if it has none or does not exist."""
    try:
        return machine.locate(f"/sys/class/net/{netdev}/device").readlink().name
    except (OSError, ValueError):
        return None
