"""A host as its diagnosis needs it: files and programs, the state of its network, and the LLDP of its leaves.

    read_host ──> NodeReading ──> JSON of `trackbed.fleet.node` ──> parse_reading, on the control node

The network is read by netlink and not by `ip`: a host needs no iproute2, and the kernel's numbers are not printed and
parsed again. The listening begins before files and programs are read, so both take the same time.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from trackbed.fabric.documents import DocumentError, parse_document, to_document
from trackbed.host.machine import Machine
from trackbed.host.moved_ports import read_moved_ports
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.snapshot.take import expand_ports, find_pci, read_snapshot
from trackbed.host.snapshot.wire import build_snapshot_document, parse_snapshot
from trackbed.host.state import list_both_families
from trackbed.kernel.netlink.addresses import Address, list_addresses
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.dcb import Dcb, get_dcb
from trackbed.kernel.netlink.links import Link, list_links
from trackbed.kernel.netlink.routes import Route, list_routes
from trackbed.kernel.netlink.rules import PolicyRule, list_rules
from trackbed.kernel.netlink.sockets import RequestError, Socket
from trackbed.kernel.netlink.vfs import VfListing, get_vfs
from trackbed.kernel.wire import lldp
from trackbed.kernel.wire.errors import ProbeError
from trackbed.kernel.wire.lldp import Advertisement
from trackbed.kernel.wire.nftables import BaseChain, list_base_chains

MAX_ENTRIES = 10_000
"""Largest number of interfaces, addresses, routes, rules, chains or VFs: a host with a full table of the Internet's
routes is no node of a fabric, and its answer would not fit."""
_MAX_NAME_CHARACTERS = 2048
"""Longest text in an advertisement: 511 bytes (802.1AB), of which each may be escaped as four characters."""
_CHAINS_SECONDS = 2.0
_REFUSALS = frozenset({errno.EPERM, errno.EACCES, errno.ENOMEM, errno.ENOBUFS, errno.EBUSY, errno.EIO})
"""Errors of a query that the driver could answer; other errors say that it has nothing to answer."""

_T = TypeVar("_T")


class ReadingRequest(NamedTuple):
    """What to read of a host."""

    ports: dict[str, str | None]
    """Interface -> planned PCI address of each port; None if the plan has none."""
    wanted: Wanted
    """Files and programs; {netdev} and {pci} are expanded on the host."""
    lldp_milliseconds: int
    """How long to listen on all ports at once; 0: not at all."""


class NetworkReading(NamedTuple):
    """The state of a host's network, in the kernel's terms."""

    links: tuple[Link, ...]
    addresses: tuple[Address, ...]
    routes: tuple[Route, ...]
    rules: tuple[PolicyRule, ...]
    vfs: dict[str, VfListing]
    """Interface -> its VFs; no entry if the driver reports none."""
    dcb: dict[str, Dcb]
    """Interface -> its data center bridging; no entry if the driver has none."""
    sysctls: dict[str, str]
    chains: tuple[BaseChain, ...] | None
    """Base chains of nf_tables; None if they cannot be read."""
    moved: tuple[str, ...]
    """Names of the ports that are in pods."""
    unread: dict[str, str]
    """Queries of one port that failed, such as `vfs rail0` -> the reason."""


class LldpReading(NamedTuple):
    """What was heard on the ports that are up."""

    neighbours: dict[str, Advertisement]
    """Interface -> its leaf. A port without an entry was silent."""
    failure: str = ""
    """Why nothing could be heard; empty if the ports were listened on."""


class NodeReading(NamedTuple):
    """What was read of a host."""

    snapshot: Snapshot
    network: NetworkReading | None
    lldp: LldpReading
    failure: str = ""
    """Why `network` is None."""
    shared_reason: str = ""
    """Why kernel and devices are those of another machine, as in a container; empty if they are the host's own."""


class _ReadingDocument(NamedTuple):
    snapshot: Any
    network: NetworkReading | None
    lldp: LldpReading
    failure: str = ""
    shared_reason: str = ""


def read_host(machine: Machine, request: ReadingRequest) -> NodeReading:
    """Read a host. Parts that cannot be read do not raise; the reading says why."""
    network, failure = _try_to_read_network(machine, request.ports)
    links = [link for link in network.links if link.name in request.ports] if network else []
    names = {link.index: link.name for link in links if link.is_up and link.carrier}
    deadline = time.monotonic() + request.lldp_milliseconds / 1000
    packets, deafness = _subscribe(machine, names) if request.lldp_milliseconds else (None, "LLDP was not listened for")
    with packets or nullcontext():
        addresses = {netdev: pci or find_pci(machine, netdev) for netdev, pci in request.ports.items()}
        snapshot = read_snapshot(machine, expand_ports(request.wanted, addresses))
        neighbours = _collect(packets, names, deadline) if packets else {}
    return NodeReading(snapshot, network, LldpReading(neighbours, deafness), failure, machine.shared_reason)


def _subscribe(machine: Machine, names: Mapping[int, str]) -> tuple[socket.socket | None, str]:
    """Return a socket that queues the LLDP frames of interfaces from now on; None, and why, where that is refused."""
    try:
        return (lldp.subscribe(machine.netns, names) if names else None), ""
    except (ProbeError, OSError) as error:
        return None, f"LLDP cannot be listened for: {error}"


def _collect(packets: socket.socket, names: Mapping[int, str], deadline: float) -> dict[str, Advertisement]:
    """Wait until each interface has heard its leaf, or until the deadline."""
    discovery = lldp.collect(packets, names, max(0.0, deadline - time.monotonic()))
    return {names[index]: advertisement for index, advertisement in discovery.neighbours.items()}


def _try_to_read_network(machine: Machine, netdevs: Iterable[str]) -> tuple[NetworkReading | None, str]:
    try:
        network = _read_network(machine, tuple(netdevs))
    except (OSError, NetlinkError) as error:
        return None, f"the kernel does not show its network: {error}"
    excess = _describe_excess(network)
    return (None, excess) if excess else (network, "")


def _read_network(machine: Machine, netdevs: tuple[str, ...]) -> NetworkReading:
    unread: dict[str, str] = {}
    vfs, dcb = read_vfs(machine, netdevs, unread), read_dcb(machine, netdevs, unread)
    with machine.open_socket() as sock:
        return NetworkReading(
            links=list_links(sock),
            addresses=list_both_families(sock, list_addresses),
            routes=list_both_families(sock, list_routes),
            rules=list_both_families(sock, list_rules),
            vfs=vfs,
            dcb=dcb,
            sysctls=read_sysctls(machine, netdevs),
            chains=read_base_chains(machine),
            moved=tuple(read_moved_ports(machine)),
            unread=unread,
        )


def _describe_excess(network: NetworkReading) -> str:
    """Return which part of the network has too many entries; empty if none has."""
    lengths = {name: len(part) for name, part in zip(network._fields, network) if part is not None}
    lengths["vfs"] = sum(len(listing.vfs) for listing in network.vfs.values())
    name, length = max(lengths.items(), key=lambda item: item[1])
    return f"it has {length} {name}, and at most {MAX_ENTRIES} are compared" if length > MAX_ENTRIES else ""


def read_sysctls(machine: Machine, names: Iterable[str]) -> dict[str, str]:
    """Return the sysctls that checks need, for these interfaces and for `all`; unreadable ones are left out."""
    names = tuple(names)
    keys = [
        f"net/ipv4/conf/{name}/{key}" for name in ("all", *names) for key in ("rp_filter", "arp_ignore", "arp_announce")
    ]
    keys += [f"net/ipv6/conf/{name}/accept_ra" for name in names]
    values = {key: machine.read_sysctl(key) for key in keys}
    return {key: value for key, value in values.items() if isinstance(value, str)}


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


def read_base_chains(machine: Machine) -> tuple[BaseChain, ...] | None:
    """Return the base chains of nf_tables; None if they cannot be read."""
    try:
        return list_base_chains(get_netns(machine), _CHAINS_SECONDS)
    except ProbeError:
        return None


def get_netns(machine: Machine) -> Path | int:
    """Return the network namespace of a machine as a path or descriptor; by default that of this process."""
    return Path("/proc/self/ns/net") if machine.netns is None else machine.netns


def parse_request(document: object) -> ReadingRequest:
    """Parse the JSON document of a request. Raises DocumentError."""
    return parse_document(document, ReadingRequest)


def build_reading_document(reading: NodeReading) -> dict[str, Any]:
    """Convert a reading to a JSON document, without the kernel's own messages (`body`), which only writers need."""
    network = to_document(reading.network)
    for entry in _iter_objects(network):
        entry.pop("body", None)
    return {
        "snapshot": build_snapshot_document(reading.snapshot),
        "network": network,
        "lldp": to_document(reading.lldp),
        "failure": reading.failure,
        "shared_reason": reading.shared_reason,
    }


def _iter_objects(network: Mapping[str, Any] | None) -> Iterable[dict[str, Any]]:
    for part in (network or {}).values():
        entries = part.values() if isinstance(part, dict) else part or ()
        yield from (entry for entry in entries if isinstance(entry, dict))


def parse_reading(document: object) -> NodeReading:
    """Parse the JSON document of a reading. A host may send anything. Raises DocumentError."""
    parsed = parse_document(document, _ReadingDocument)
    if parsed.network is not None and (excess := _describe_excess(parsed.network)):
        raise DocumentError(excess)
    texts = (text for heard in parsed.lldp.neighbours.values() for text in vars(heard).values())
    if any(len(text) > _MAX_NAME_CHARACTERS for text in texts if isinstance(text, str)):
        raise DocumentError("an LLDP neighbour has a longer name than a frame can hold")
    return NodeReading(parse_snapshot(parsed.snapshot), *parsed[1:])
