"""State of a port's RDMA device: link, rate, path MTU, GIDs (Documentation/ABI/stable/sysfs-class-infiniband)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import NamedTuple

from trackbed.doctor.catalogue import build_finding, format_value
from trackbed.doctor.finding import Finding
from trackbed.doctor.rdma_devices import HARDWARE_DEVICES, SOFT_DEVICES, SysfsRdmaDevice, list_rdma_devices
from trackbed.doctor.view import NodeView
from trackbed.fabric.model.ranges import V4, format_address
from trackbed.fabric.plan.plan import AddressPlan, PortPlan
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

HEADERS_BYTES = 96
"""Bytes that the kernel subtracts from an interface's MTU to derive the path MTU: GRH 40, UDP 8, BTH 12, XRC 4, atomic
28, checksum 4 (iboe_get_mtu of include/rdma/ib_addr.h)."""
PATH_MTUS = (4096, 2048, 1024, 512, 256)
"""Path MTUs in bytes, largest first (enum ib_mtu of include/rdma/ib_verbs.h)."""
IPV4_MAPPED_PREFIX = 0xFFFF << 32
"""Prefix of an IPv4 address as a GID: ::ffff:a.b.c.d (RFC 4291, 2.5.5.2)."""

_DEVINFO = ("ibv_devinfo",)
_PORT = "ports/1"
_INDEXES, _INDEX_PATTERNS = range(20), ("[0-9]", "1[0-9]")
"""Indexes of the GIDs that are read: a table has 256, and each address takes the first two that are free."""
_FOLDERS = (f"{HARDWARE_DEVICES}/*/{_PORT}", f"{SOFT_DEVICES}/*/{_PORT}")
_GID_FILES = ("gids", "gid_attrs/types", "gid_attrs/ndevs")
_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) Gb/sec \((\d{1,9})X")
_ROCE_V2 = "RoCE v2"

READS = Wanted(
    files=(
        *(f"{folder}/{name}" for folder in _FOLDERS for name in ("state", "phys_state", "rate", "link_layer")),
        *(f"{folder}/{name}/{index}" for folder in _FOLDERS for name in _GID_FILES for index in _INDEX_PATTERNS),
    ),
    commands=(_DEVINFO,),
)


@dataclass(frozen=True, slots=True)
class Gid:
    """An entry of an RDMA port's GID table; `kind` is `IB/RoCE v1` or `RoCE v2`."""

    number: int
    kind: str
    netdev: str


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check each port that has one RDMA device on the host, and compare the rates of all ports."""
    rates = {port.rail: _read_port_rate(host, port) for port in view.iter_ports()}
    best = max((rate for rate in rates.values() if rate is not None), default=_PortRate(0.0, 0))
    for port in view.iter_ports():
        devices = list_rdma_devices(host, port.netdev)
        if len(devices) == 1:
            yield from check_device(view, host, port, devices[0])
        rate = rates[port.rail]
        if rate is not None:
            evidence = f"{_format_rate(rate)}; the best port has {_format_rate(best)}"
            yield build_finding("rdma-rate-below-plan", view.node, port, ok=rate == best, evidence=evidence)


def check_device(view: NodeView, host: Snapshot, port: PortPlan, device: SysfsRdmaDevice) -> Iterator[Finding]:
    """Check that the device's port is active, and on Ethernet its GIDs and path MTU."""
    state, physical = (host.read_text(f"{device.folder}/{_PORT}/{name}") for name in ("state", "phys_state"))
    if state is None:
        return
    is_active = state.endswith("ACTIVE")
    evidence = f"{device.name}: state {state}, phys_state {format_value(physical)}"
    yield build_finding("rdma-port-down", view.node, port, ok=is_active, evidence=evidence)
    if is_active and host.read_text(f"{device.folder}/{_PORT}/link_layer") == "Ethernet":
        yield from check_gids(view, host, port, device)
        yield from check_path_mtu(view, host, port, device)


class _PortRate(NamedTuple):
    """The rate of an RDMA port, and its number of lanes."""

    gbit_per_second: float
    lanes: int


def _format_rate(rate: _PortRate) -> str:
    return f"{rate.gbit_per_second:g} Gb/s, {rate.lanes} lanes"


def _read_port_rate(host: Snapshot, port: PortPlan) -> _PortRate | None:
    """Return the rate of a hardware port; None if it is not active.

    The plan has no rate, so the rates of all rails are compared.
    """
    for device in list_rdma_devices(host, port.netdev):
        match = _RATE.match(host.read_text(f"{device.folder}/{_PORT}/rate") or "")
        if match and not device.is_soft and (host.read_text(f"{device.folder}/{_PORT}/state") or "").endswith("ACTIVE"):
            return _PortRate(float(match[1]), int(match[2]))
    return None


def check_gids(view: NodeView, host: Snapshot, port: PortPlan, device: SysfsRdmaDevice) -> Iterator[Finding]:
    """Check that each planned address has a RoCE v2 GID."""
    for address in port.addresses:
        table = list(_read_gids(host, device))
        if not table:
            return
        gids = [gid for gid in table if gid.number == _to_gid(address) and gid.netdev == port.netdev]
        kinds = ", ".join(gid.kind for gid in gids) or "no GID"
        evidence = f"{device.name}: {kinds} for {format_address(address.version, address.address)}"
        if gids:
            ok = any(gid.kind == _ROCE_V2 for gid in gids)
            yield build_finding("rdma-gid-rocev1-only", view.node, port, ok=ok, evidence=evidence)
        yield build_finding("rdma-gid-without-address", view.node, port, ok=bool(gids), evidence=evidence)


def _to_gid(address: AddressPlan) -> int:
    """Return the GID of an address: an IPv6 address itself, or an IPv4-mapped one."""
    return IPV4_MAPPED_PREFIX | address.address if address.version == V4 else address.address


def _read_gids(host: Snapshot, device: SysfsRdmaDevice) -> Iterator[Gid]:
    """Yield the GIDs in use. Unused ones are zeros, and reading their type or interface fails (EINVAL)."""
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
    """Check the path MTU that ibv_devinfo reports or, without it, the one that the interface's MTU allows."""
    link, planned = view.find_link(port), view.node.common.path_mtu_bytes
    if link is None:
        return
    reported = _parse_active_mtu(host.get_output(*_DEVINFO) or "", device.name)
    derived = next((size for size in PATH_MTUS if size <= link.mtu - HEADERS_BYTES), 0)
    path_mtu = reported if reported is not None else derived
    evidence = f"{device.name}: path MTU {path_mtu}, planned {planned}; {port.netdev} has MTU {link.mtu}"
    yield build_finding("rdma-active-mtu-low", view.node, port, ok=path_mtu >= planned, evidence=evidence)


def _parse_active_mtu(output: str, device_name: str) -> int | None:
    """Return the active MTU that ibv_devinfo(1) prints for a device, `active_mtu:		1024 (3)`; None if absent."""
    for block in output.split("hca_id:")[1:]:
        if block.split(maxsplit=1)[0] == device_name:
            match = re.search(r"active_mtu:\s+(\d{1,9})", block)
            return int(match[1]) if match else None
    return None
