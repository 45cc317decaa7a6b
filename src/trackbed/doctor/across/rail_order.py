"""The order of a node's rails. NCCL sorts devices by their PCI address but is configured with their names.

Both must lead to the same rail on every node.
"""

from typing import NamedTuple

from trackbed.doctor.rdma_devices import list_rdma_devices
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Snapshot


class RailPosition(NamedTuple):
    """A rail of one node: its RDMA device, and the position of its port in the node's ports sorted by PCI address."""

    rail: int
    rdma: str
    position: int

    def __str__(self) -> str:
        return f"{self.rdma or 'no RDMA device'}, port {self.position} by PCI"


def identify_hardware(view: NodeView, host: Snapshot) -> str:
    """Return the planned NIC and the sorted PCI addresses of the ports, which are the same on nodes of one model."""
    addresses = sorted(host.find_pci(port.netdev) or "" for port in view.iter_ports())
    return " ".join((view.node.nic or "", *addresses))


def list_rail_positions(view: NodeView, host: Snapshot) -> tuple[RailPosition, ...]:
    """Return the positions of all rails on the host, in order of rail."""
    addresses = {port.rail: pci for port in view.iter_ports() if (pci := host.find_pci(port.netdev)) is not None}
    names = {port.rail: [device.name for device in list_rdma_devices(host, port.netdev)] for port in view.iter_ports()}
    ordered = sorted(addresses.values())
    return tuple(
        RailPosition(rail, "+".join(names[rail]), ordered.index(pci)) for rail, pci in sorted(addresses.items())
    )
