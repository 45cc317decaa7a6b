"""What a port's RDMA device makes of its cable and addresses (Documentation/ABI/stable/sysfs-class-infiniband)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.rdma_devices import BELOW, VIRTUAL, RdmaDevice, list_rdma_devices
from trackbed.fabric.model.ranges import V4, text
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import Addressed, PortPlan
    from trackbed.host.snapshot.snapshot import Snapshot

HEADERS_BYTES = 96
"""What the kernel takes off an interface's MTU before it looks for a path MTU: GRH 40, UDP 8, BTH 12, XRC 4, atomic 28,
checksum 4 (iboe_get_mtu of include/rdma/ib_addr.h)."""
PATH_MTUS = (4096, 2048, 1024, 512, 256)
"""enum ib_mtu of include/rdma/ib_verbs.h, in bytes."""
MAPPED = 0xFFFF << 32
"""An IPv4 address as a GID: ::ffff:a.b.c.d (RFC 4291, 2.5.5.2)."""

_TOLD = ("ibv_devinfo",)
_PORT = "ports/1"
_INDEXES, _ALL_INDEXES = range(20), ("[0-9]", "1[0-9]")
"""GIDs that are looked at. A table has 256; each address takes two of the first free ones."""
_PLACES = (f"{BELOW}/*/{_PORT}", f"{VIRTUAL}/*/{_PORT}")
_KINDS = ("gids", "gid_attrs/types", "gid_attrs/ndevs")
_RATE = re.compile(r"([0-9.]+) Gb/sec \((\d+)X")
_V2 = "RoCE v2"

READS = Wanted(
    files=(
        *(f"{place}/{name}" for place in _PLACES for name in ("state", "phys_state", "rate", "link_layer")),
        *(f"{place}/{kind}/{index}" for place in _PLACES for kind in _KINDS for index in _ALL_INDEXES),
    ),
    commands=(_TOLD,),
)


@dataclass(frozen=True, slots=True)
class Gid:
    """One address of an RDMA port."""

    number: int
    kind: str
    netdev: str


def check(view: NodeView) -> Iterator[Finding]:
    """Judge each port that has one RDMA device on the host."""
    host = view.host
    if host is None:
        return
    rates = {port.rail: _rate(host, port) for port in view.iter_ports()}
    best = max((rate for rate in rates.values() if rate is not None), default=(0.0, 0))
    for port in view.iter_ports():
        found = list_rdma_devices(host, port.netdev)
        if len(found) == 1:
            yield from _judged(view, host, port, found[0])
        rate = rates[port.rail]
        if rate is not None:
            evidence = f"{rate[0]:g} Gb/s, {rate[1]} lanes; the best port has {best[0]:g} Gb/s, {best[1]} lanes"
            yield judge("rdma-rate-below-plan", view.node, port, ok=rate == best, evidence=evidence)


def _judged(view: NodeView, host: Snapshot, port: PortPlan, device: RdmaDevice) -> Iterator[Finding]:
    state, physical = (host.text(f"{device.folder}/{_PORT}/{name}") for name in ("state", "phys_state"))
    if state is None:
        return
    active = state.endswith("ACTIVE")
    evidence = f"{device.name}: state {state}, phys_state {physical}"
    yield judge("rdma-port-down", view.node, port, ok=active, evidence=evidence)
    if active and host.text(f"{device.folder}/{_PORT}/link_layer") == "Ethernet":
        yield from _gids(view, host, port, device)
        yield from _mtu(view, host, port, device)


def _rate(host: Snapshot, port: PortPlan) -> tuple[float, int] | None:
    """Gb/s and lanes of a port of hardware that is up: the plan has no speed, but all rails shall be alike."""
    for device in list_rdma_devices(host, port.netdev):
        found = _RATE.match(host.text(f"{device.folder}/{_PORT}/rate") or "")
        if found and not device.is_soft and (host.text(f"{device.folder}/{_PORT}/state") or "").endswith("ACTIVE"):
            return float(found[1]), int(found[2])
    return None


def _gids(view: NodeView, host: Snapshot, port: PortPlan, device: RdmaDevice) -> Iterator[Finding]:
    table = list(_table(host, device))
    if not table:
        return
    for own in port.addressed:
        mine = [gid for gid in table if gid.number == _as_gid(own) and gid.netdev == port.netdev]
        shown = text(own.version, own.address)
        evidence = f"{device.name}: {', '.join(gid.kind for gid in mine) or 'no GID'} for {shown}"
        yield judge("rdma-gid-without-address", view.node, port, ok=bool(mine), evidence=evidence)
        if mine:
            routed = any(gid.kind == _V2 for gid in mine)
            yield judge("rdma-gid-rocev1-only", view.node, port, ok=routed, evidence=evidence)


def _as_gid(own: Addressed) -> int:
    return MAPPED | own.address if own.version == V4 else own.address


def _table(host: Snapshot, device: RdmaDevice) -> Iterator[Gid]:
    """The GIDs in use; of the others the kernel gives zeros and refuses type and interface (EINVAL)."""
    place = f"{device.folder}/{_PORT}"
    for index in _INDEXES:
        kind, netdev = (host.text(f"{place}/gid_attrs/{name}/{index}") for name in ("types", "ndevs"))
        try:
            number = int(IPv6Address(host.text(f"{place}/gids/{index}") or ""))
        except ValueError:
            continue
        if number and kind is not None:
            yield Gid(number, kind, netdev or "")


def _mtu(view: NodeView, host: Snapshot, port: PortPlan, device: RdmaDevice) -> Iterator[Finding]:
    """As the device says it; where nobody can ask it, as the kernel reckons it from the interface's MTU."""
    link, planned, told = (
        view.find_link(port),
        view.node.common.path_mtu_bytes,
        _told(host.said(*_TOLD) or "", device.name),
    )
    if link is None:
        return
    reckoned = next((size for size in PATH_MTUS if size <= link.mtu - HEADERS_BYTES), 0)
    have = told if told is not None else reckoned
    evidence = f"{device.name}: path MTU {have}, planned {planned}; {port.netdev} has MTU {link.mtu}"
    yield judge("rdma-active-mtu-low", view.node, port, ok=have >= planned, evidence=evidence)


def _told(output: str, name: str) -> int | None:
    """The active_mtu that ibv_devinfo(1) prints for a device: `active_mtu:		1024 (3)`."""
    for block in output.split("hca_id:")[1:]:
        if block.split(maxsplit=1)[0] == name:
            found = re.search(r"active_mtu:\s+(\d+)", block)
            return int(found[1]) if found else None
    return None
