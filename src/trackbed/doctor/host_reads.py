"""Reading of a host for its checks: files, links, output of programs, and netlink data of VFs and DCB."""

import errno
from collections.abc import Callable, Iterable
from typing import TypeVar

from trackbed.doctor.checks import READS
from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.machine import Machine
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.snapshot.take import expand_ports, read_snapshot
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.dcb import Dcb, get_dcb
from trackbed.kernel.netlink.sockets import RequestError, Socket
from trackbed.kernel.netlink.vfs import VfListing, get_vfs

_T = TypeVar("_T")

_REFUSALS = frozenset({errno.EPERM, errno.EACCES, errno.ENOMEM, errno.ENOBUFS, errno.EBUSY, errno.EIO})
"""Errors of a query that the driver could answer; other errors say that it has nothing to answer."""


def take_snapshot(machine: Machine, node: NodePlan) -> Snapshot | None:
    """Return a snapshot of everything that host checks need; None if the machine shares its host (a container)."""
    if machine.shared_reason or not machine.locate("/proc/cmdline").exists():
        return None
    return read_snapshot(machine, build_wanted(machine, node))


def build_wanted(machine: Machine, node: NodePlan) -> Wanted:
    """Return what host checks need to read, with the names and PCI addresses of the node's ports filled in."""
    return expand_ports(READS, {port.netdev: port.pci or find_pci(machine, port.netdev) for port in node.ports})


def read_vfs(machine: Machine, netdevs: Iterable[str], unread: dict[str, str]) -> dict[str, VfListing]:
    """Return the VFs of each interface whose driver reports them; add `vfs NETDEV` to `unread` for a failed query."""
    return _query_links(machine, netdevs, get_vfs, lambda netdev, reason: unread.update({f"vfs {netdev}": reason}))


def read_dcb(machine: Machine, netdevs: Iterable[str], unread: dict[str, str]) -> dict[str, Dcb]:
    """Return the bridging (DCB) of each interface whose driver reports it; add `dcb NETDEV` for a failed query."""
    return _query_links(machine, netdevs, get_dcb, lambda netdev, reason: unread.update({f"dcb {netdev}": reason}))


def _query_links(
    machine: Machine,
    netdevs: Iterable[str],
    query: Callable[[Socket, str], _T],
    report: Callable[[str, str], None],
) -> dict[str, _T]:
    """Return the query's result for each interface; interfaces whose driver has no answer are left out."""
    results = {}
    for netdev in netdevs:
        with machine.open_socket() as sock:
            try:
                results[netdev] = query(sock, netdev)
            except RequestError as error:
                if error.errno in _REFUSALS:
                    report(netdev, str(error))
            except NetlinkError as error:
                report(netdev, str(error) or type(error).__name__)
    return results


def find_pci(machine: Machine, netdev: str) -> str | None:
    """Return the PCI address of an interface; None if it has none or does not exist."""
    try:
        return machine.locate(f"/sys/class/net/{netdev}/device").readlink().name
    except (OSError, ValueError):
        return None
