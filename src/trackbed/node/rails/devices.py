"""The devices of each rail that the kubelet may allocate, derived from the plan and the state of the ports.

    macvlan    a device for every planned pod address of the rail, at most MAX_DEVICES: rail3-0, rail3-1, ...
    sriov      a device for every VF that has an address: rail3-0 is VF 0
    move       one device, the port itself: rail3

A device is healthy while its port is up and has carrier. A VF must also be usable: with a driver, and with an RDMA
device where its port has a hardware one. A device in a pod cannot be inspected from here and counts as healthy as its
port, because the kubelet would count it as lost otherwise. A device in a pod without a record counts as absent.
"""

import errno
from collections.abc import Collection, Mapping
from pathlib import Path

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.kernel.netlink.links import Link, get_link
from trackbed.kernel.netlink.sockets import RequestError, Socket
from trackbed.node.rails import hardware
from trackbed.node.rails.attachment import PORT_ITSELF
from trackbed.node.rails.choice import format_device_id
from trackbed.node.rails.kubelet.messages import Device, Offer
from trackbed.node.rails.store import Slot

MAX_DEVICES = 256
"""No kubelet runs more pods than that (its maxPods is 110 by default)."""


def read_offer(node: NodePlan, moved: Collection[Slot], sysfs: Path = hardware.SYSFS) -> Offer:
    """Return the devices of the node; `moved` are the ports and VFs that are in pods. Raises OSError, NetlinkError."""
    with Socket() as sock:
        links = {port.netdev: link for port in node.ports if (link := _read_link(sock, port.netdev)) is not None}
    numa = {port.netdev: hardware.read_numa_node(hardware.locate_port(port.netdev, sysfs)) for port in node.ports}
    return build_offer(node, links, {*moved, *list_usable_vfs(node, sysfs)}, numa)


def _read_link(sock: Socket, netdev: str) -> Link | None:
    """Return the link of one port. Listing all links would be slow on a node with many pods."""
    try:
        return get_link(sock, netdev)
    except RequestError as error:
        if error.errno != errno.ENODEV:
            raise
        return None


def list_usable_vfs(node: NodePlan, sysfs: Path) -> list[Slot]:
    """Return the VFs on the host that a pod can use."""
    return [
        (port.rail, vf) for port in node.ports for vf in range(node.common.vfs) if _is_usable(port.netdev, vf, sysfs)
    ]


def _is_usable(netdev: str, number: int, sysfs: Path) -> bool:
    vf = hardware.locate_vf(netdev, number, sysfs)
    lacks_rdma = hardware.read_rdma_device(hardware.locate_port(netdev, sysfs)) and not hardware.read_rdma_device(vf)
    return hardware.read_interface(vf) is not None and not lacks_rdma


def build_offer(
    node: NodePlan, links: Mapping[str, Link], present: Collection[Slot], numa: Mapping[str, int | None]
) -> dict[int, tuple[Device, ...]]:
    """Return the devices by rail.

    Args:
        node: the plan of the node.
        links: the ports by name.
        present: ports and VFs that are in a pod or can be moved into one.
        numa: NUMA node of each port by name.
    """
    offer = {}
    for port in node.ports:
        link = links.get(port.netdev)
        carrier = link is not None and link.up and link.carrier
        devices = _list_devices(node, port, present, carrier=carrier)
        offer[port.rail] = tuple(Device(device, healthy, numa.get(port.netdev)) for device, healthy in devices)
    return offer


def _list_devices(
    node: NodePlan, port: PortPlan, present: Collection[Slot], *, carrier: bool
) -> list[tuple[str, bool]]:
    """Return the ids of a port's devices, each with its health."""
    rail = port.rail
    match node.common.pod_mode:
        case "move":
            return [(f"rail{rail}", carrier or (rail, PORT_ITSELF) in present)]
        case "sriov":
            count = min([node.common.vfs, *(addressed.pods_count for addressed in port.addresses)])
            return [(format_device_id(rail, vf), carrier and (rail, vf) in present) for vf in range(count)]
        case _:
            count = min((addressed.pods_count for addressed in port.addresses), default=0)
            return [(format_device_id(rail, number), carrier) for number in range(min(count, MAX_DEVICES))]
