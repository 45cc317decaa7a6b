"""Names of RDMA devices, and the order of rails on nodes with the same NICs.

NCCL sorts devices by their PCI address but is configured with their names. Both must lead to the same rail on every
node.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from trackbed.doctor.catalogue import judge
from trackbed.doctor.finding import Finding
from trackbed.doctor.rdma_devices import READS as DEVICES
from trackbed.doctor.rdma_devices import list_rdma_devices
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_DEVICE = "/sys/class/net/{netdev}/device"

READS = Wanted(links=(_DEVICE,)) | DEVICES


def check(view: NodeView) -> Iterator[Finding]:
    """Check the name of each port's RDMA device, and the order of all ports against nodes with the same NICs."""
    host = view.host
    if host is None:
        return
    for port in view.iter_ports():
        names = [device.name for device in list_rdma_devices(host, port.netdev)]
        if names:
            planned = view.node.common.rails[port.rail].rdma
            evidence = f"{port.netdev} has {', '.join(names)}, planned {planned}"
            yield judge("names-rdma-device-unexpected", view.node, port, ok=names == [planned], evidence=evidence)
    yield from check_rail_order(view, host)


class RailPosition(NamedTuple):
    """A rail of one node: its RDMA device, and the position of its port among the node's ports by PCI address."""

    rail: int
    rdma: str
    position: int


def check_rail_order(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that the rails are in the order that most nodes with the same NICs have."""
    positions, nics = _list_positions(view, host), _identify_nics(view, host)
    known = [(peer, peer.host) for peer in view.peers or () if peer.host is not None]
    peers = [
        (peer.node.name, _list_positions(peer, peer_host))
        for peer, peer_host in known
        if _identify_nics(peer, peer_host) == nics
    ]
    if not positions or not peers:
        return
    usual, count = Counter([positions, *(order for _, order in peers)]).most_common(1)[0]
    reference = usual if count > 1 else peers[0][1]
    name = next((name for name, order in peers if order == reference), view.node.name)
    wrong = [(actual, usual) for actual, usual in zip(positions, reference, strict=False) if actual != usual]
    evidence = "; ".join(
        f"rail {actual.rail}: {_describe(actual)}, on {name} {_describe(usual)}" for actual, usual in wrong[:3]
    )
    yield judge("names-rail-order-differs", view.node, None, ok=not wrong, evidence=evidence)


def _describe(position: RailPosition) -> str:
    return f"{position.rdma or 'no RDMA device'}, port {position.position} by PCI"


def _identify_nics(view: NodeView, host: Snapshot) -> tuple[str | None, tuple[str, ...]]:
    """Return the planned NIC with its slots, which nodes of one model share."""
    return view.node.nic, tuple(sorted(host.find_pci(port.netdev) or "" for port in view.iter_ports()))


def _list_positions(view: NodeView, host: Snapshot) -> tuple[RailPosition, ...]:
    addresses = {port.rail: pci for port in view.iter_ports() if (pci := host.find_pci(port.netdev)) is not None}
    names = {port.rail: [device.name for device in list_rdma_devices(host, port.netdev)] for port in view.iter_ports()}
    ordered = sorted(addresses.values())
    return tuple(
        RailPosition(rail, "+".join(names[rail]), ordered.index(pci)) for rail, pci in sorted(addresses.items())
    )
