"""Names of RDMA devices, and the order of rails on nodes with the same NICs.

NCCL sorts devices by their PCI address but is configured with their names. Both must lead to the same rail on every
node.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.rdma_devices import list_rdma_devices
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_DEVICE = "/sys/class/net/{netdev}/device"

READS = Wanted(links=(_DEVICE,))


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check the name of each port's RDMA device, and the order of all ports against nodes with the same NICs."""
    for port in view.iter_ports():
        names = [device.name for device in list_rdma_devices(host, port.netdev)]
        if names:
            planned = view.node.common.rails[port.rail].rdma
            evidence = f"{port.netdev} has {', '.join(names)}, planned {planned}"
            yield build_finding(
                "names-rdma-device-unexpected", view.node, port, ok=names == [planned], evidence=evidence
            )
    yield from check_rail_order(view, host)


class RailPosition(NamedTuple):
    """A rail of one node: its RDMA device, and the position of its port in the node's ports sorted by PCI address."""

    rail: int
    rdma: str
    position: int


def check_rail_order(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that the rails are in the same order as on most nodes with the same NICs."""
    positions, nics = _list_rail_positions(view, host), _identify_hardware(view, host)
    known = [(peer, peer.host) for peer in view.peers or () if peer.host is not None]
    peers = [
        (peer.node.name, _list_rail_positions(peer, peer_host))
        for peer, peer_host in known
        if _identify_hardware(peer, peer_host) == nics
    ]
    if not positions or not peers:
        return
    usual, count = Counter([positions, *(order for _, order in peers)]).most_common(1)[0]
    reference = usual if count > 1 else peers[0][1]
    name = next((name for name, order in peers if order == reference), view.node.name)
    wrong = [(actual, usual) for actual, usual in zip(positions, reference, strict=False) if actual != usual]
    evidence = "; ".join(
        f"rail {actual.rail}: {_describe_position(actual)}, on {name} {_describe_position(usual)}"
        for actual, usual in wrong[:3]
    )
    yield build_finding("names-rail-order-differs", view.node, None, ok=not wrong, evidence=evidence)


def _describe_position(position: RailPosition) -> str:
    return f"{position.rdma or 'no RDMA device'}, port {position.position} by PCI"


def _identify_hardware(view: NodeView, host: Snapshot) -> tuple[str | None, tuple[str, ...]]:
    """Return the planned NIC and the sorted PCI addresses of the ports, which are the same on nodes of one model."""
    return view.node.nic, tuple(sorted(host.find_pci(port.netdev) or "" for port in view.iter_ports()))


def _list_rail_positions(view: NodeView, host: Snapshot) -> tuple[RailPosition, ...]:
    """Return the positions of all rails on the host, in order of rail."""
    addresses = {port.rail: pci for port in view.iter_ports() if (pci := host.find_pci(port.netdev)) is not None}
    names = {port.rail: [device.name for device in list_rdma_devices(host, port.netdev)] for port in view.iter_ports()}
    ordered = sorted(addresses.values())
    return tuple(
        RailPosition(rail, "+".join(names[rail]), ordered.index(pci)) for rail, pci in sorted(addresses.items())
    )
