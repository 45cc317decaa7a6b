"""State of a port's RDMA device: link, rate, path MTU, GIDs (Documentation/ABI/stable/sysfs-class-infiniband)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address

from trackbed.doctor.catalogue import judge
from trackbed.doctor.finding import Finding
from trackbed.doctor.rdma_devices import BELOW, VIRTUAL, SysfsRdmaDevice, list_rdma_devices
from trackbed.doctor.view import NodeView
from trackbed.fabric.model.ranges import V4, format_address
from trackbed.fabric.plan.plan import AddressPlan, PortPlan
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

HEADERS_BYTES = 96
"""Bytes that the kernel subtracts from an interface's MTU to derive the path MTU: GRH 40, UDP 8, BTH 12, XRC 4, atomic
28, checksum 4 (iboe_get_mtu of include/rdma/ib_addr.h)."""
PATH_MTUS = (4096, 2048, 1024, 512, 256)
"""enum ib_mtu of include/rdma/ib_verbs.h, in bytes."""
MAPPED = 0xFFFF << 32
"""Prefix of an IPv4 address as a GID: ::ffff:a.b.c.d (RFC 4291, 2.5.5.2)."""

_DEVINFO = ("ibv_devinfo",)
_PORT = "ports/1"
_INDEXES, _INDEX_PATTERNS = range(20), ("[0-9]", "1[0-9]")
"""GIDs that are read. A table has 256; each address takes two of the first free ones."""
_FOLDERS = (f"{BELOW}/*/{_PORT}", f"{VIRTUAL}/*/{_PORT}")
_GID_FILES = ("gids", "gid_attrs/types", "gid_attrs/ndevs")
_RATE = re.compile(r"([0-9.]+) Gb/sec \((\d+)X")
_V2 = "RoCE v2"

READS = Wanted(
    files=(
        *(f"{folder}/{name}" for folder in _FOLDERS for name in ("state", "phys_state", "rate", "link_layer")),
        *(f"{folder}/{name}/{index}" for folder in _FOLDERS for name in _GID_FILES for index in _INDEX_PATTERNS),
    ),
    commands=(_DEVINFO,),
)


@dataclass(frozen=True, slots=True)
class Gid:
    """One address of an RDMA port."""

    number: int
    kind: str
    netdev: str


def check(view: NodeView) -> Iterator[Finding]:
    """Check each port that has one RDMA device on the host, and compare the rates of all ports."""
    host = view.host
    if host is None:
        return
    rates = {port.rail: _read_rate(host, port) for port in view.iter_ports()}
    best = max((rate for rate in rates.values() if rate is not None), default=(0.0, 0))
    for port in view.iter_ports():
        devices = list_rdma_devices(host, port.netdev)
        if len(devices) == 1:
            yield from check_device(view, host, port, devices[0])
        rate = rates[port.rail]
        if rate is not None:
            evidence = f"{rate[0]:g} Gb/s, {rate[1]} lanes; the best port has {best[0]:g} Gb/s, {best[1]} lanes"
            yield judge("rdma-rate-below-plan", view.node, port, ok=rate == best, evidence=evidence)


def check_device(view: NodeView, host: Snapshot, port: PortPlan, device: SysfsRdmaDevice) -> Iterator[Finding]:
    """Check that the device's port is active, and on Ethernet its GIDs and path MTU."""
    state, physical = (host.read_text(f"{device.folder}/{_PORT}/{name}") for name in ("state", "phys_state"))
    if state is None:
        return
    is_active = state.endswith("ACTIVE")
    evidence = f"{device.name}: state {state}, phys_state {physical}"
    yield judge("rdma-port-down", view.node, port, ok=is_active, evidence=evidence)
    if is_active and host.read_text(f"{device.folder}/{_PORT}/link_layer") == "Ethernet":
        yield from check_gids(view, host, port, device)
        yield from check_path_mtu(view, host, port, device)


def _read_rate(host: Snapshot, port: PortPlan) -> tuple[float, int] | None:
    """Return the rate in Gb/s and the lanes of an active hardware port.

    The plan has no rate; the rates of all rails are compared instead.
    """
    for device in list_rdma_devices(host, port.netdev):
        match = _RATE.match(host.read_text(f"{device.folder}/{_PORT}/rate") or "")
        if match and not device.is_soft and (host.read_text(f"{device.folder}/{_PORT}/state") or "").endswith("ACTIVE"):
            return float(match[1]), int(match[2])
    return None


def check_gids(view: NodeView, host: Snapshot, port: PortPlan, device: SysfsRdmaDevice) -> Iterator[Finding]:
    """Check that each planned address has a GID of RoCE v2."""
    table = list(_read_gids(host, device))
    if not table:
        return
    for address in port.addresses:
        gids = [gid for gid in table if gid.number == _to_gid(address) and gid.netdev == port.netdev]
        kinds = ", ".join(gid.kind for gid in gids) or "no GID"
        evidence = f"{device.name}: {kinds} for {format_address(address.version, address.address)}"
        yield judge("rdma-gid-without-address", view.node, port, ok=bool(gids), evidence=evidence)
        if gids:
            ok = any(gid.kind == _V2 for gid in gids)
            yield judge("rdma-gid-rocev1-only", view.node, port, ok=ok, evidence=evidence)


def _to_gid(address: AddressPlan) -> int:
    return MAPPED | address.address if address.version == V4 else address.address


def _read_gids(host: Snapshot, device: SysfsRdmaDevice) -> Iterator[Gid]:
    """Yield the GIDs in use; for unused ones the kernel returns zeros and refuses type and interface (EINVAL)."""
    folder = f"{device.folder}/{_PORT}"
    for index in _INDEXES:
        kind, netdev = (host.read_text(f"{folder}/gid_attrs/{name}/{index}") for name in ("types", "ndevs"))
        try:
            number = int(IPv6Address(host.read_text(f"{folder}/gids/{index}") or ""))
        except ValueError:
            continue
        if number and kind is not None:
            yield Gid(number, kind, netdev or "")


def check_path_mtu(view: NodeView, host: Snapshot, port: PortPlan, device: SysfsRdmaDevice) -> Iterator[Finding]:
    """Check the path MTU that the device reports; without a report, the one that follows from the interface's MTU."""
    link, planned = view.find_link(port), view.node.common.path_mtu_bytes
    if link is None:
        return
    reported = _parse_active_mtu(host.get_output(*_DEVINFO) or "", device.name)
    derived = next((size for size in PATH_MTUS if size <= link.mtu - HEADERS_BYTES), 0)
    path_mtu = reported if reported is not None else derived
    evidence = f"{device.name}: path MTU {path_mtu}, planned {planned}; {port.netdev} has MTU {link.mtu}"
    yield judge("rdma-active-mtu-low", view.node, port, ok=path_mtu >= planned, evidence=evidence)


def _parse_active_mtu(output: str, name: str) -> int | None:
    """Return the active_mtu that ibv_devinfo(1) prints for a device: `active_mtu:		1024 (3)`."""
    for block in output.split("hca_id:")[1:]:
        if block.split(maxsplit=1)[0] == name:
            match = re.search(r"active_mtu:\s+(\d+)", block)
            return int(match[1]) if match else None
    return None
