"""Names of RDMA devices, and that rails have one order on all nodes of one kind.

NCCL sorts devices by their place on PCI, and is told of them by their names: both must mean the same rail everywhere.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from trackbed.doctor.catalogue import judge
from trackbed.doctor.rdma_devices import READS as DEVICES
from trackbed.doctor.rdma_devices import list_rdma_devices
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.host.snapshot.snapshot import Snapshot

_DEVICE = "/sys/class/net/{netdev}/device"

READS = Wanted(links=(_DEVICE,)) | DEVICES


def check(view: NodeView) -> Iterator[Finding]:
    """Judge each port that has an RDMA device, and the order of all ports against nodes of the same kind."""
    host = view.host
    if host is None:
        return
    for port in view.iter_ports():
        have = [device.name for device in list_rdma_devices(host, port.netdev)]
        if have:
            want = view.node.common.rails[port.rail].rdma
            evidence = f"{port.netdev} has {', '.join(have)}, planned {want}"
            yield judge("names-rdma-device-unexpected", view.node, port, ok=have == [want], evidence=evidence)
    yield from _order(view, host)


class RailPosition(NamedTuple):
    """What a rail is on one node: its RDMA device, and which of the node's ports it is by PCI address."""

    rail: int
    rdma: str
    position: int


def _order(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    mine, kind = _places(view, host), _kind(view, host)
    known = [(one, one.host) for one in view.peers or () if one.host is not None]
    same = [(one.node.name, _places(one, its)) for one, its in known if _kind(one, its) == kind]
    if not mine or not same:
        return
    usual, often = Counter([mine, *(places for _, places in same)]).most_common(1)[0]
    reference = usual if often > 1 else same[0][1]
    name = next((name for name, places in same if places == reference), view.node.name)
    wrong = [(a, b) for a, b in zip(mine, reference, strict=False) if a != b]
    evidence = "; ".join(f"rail {a.rail}: {_shown(a)}, on {name} {_shown(b)}" for a, b in wrong[:3])
    yield judge("names-rail-order-differs", view.node, None, ok=not wrong, evidence=evidence)


def _shown(place: RailPosition) -> str:
    return f"{place.rdma or 'no RDMA device'}, port {place.position} by PCI"


def _kind(view: NodeView, host: Snapshot) -> tuple[str | None, tuple[str, ...]]:
    """Nodes with the same NIC in the same slots are of one kind."""
    return view.node.nic, tuple(sorted(host.pci(port.netdev) or "" for port in view.iter_ports()))


def _places(view: NodeView, host: Snapshot) -> tuple[RailPosition, ...]:
    addresses = {port.rail: pci for port in view.iter_ports() if (pci := host.pci(port.netdev)) is not None}
    names = {port.rail: [one.name for one in list_rdma_devices(host, port.netdev)] for port in view.iter_ports()}
    ordered = sorted(addresses.values())
    return tuple(
        RailPosition(rail, "+".join(names[rail]), ordered.index(pci)) for rail, pci in sorted(addresses.items())
    )
