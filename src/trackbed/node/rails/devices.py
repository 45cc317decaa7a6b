"""The devices of each rail that the kubelet may allocate, derived from the plan and the state of the ports.

    macvlan    a device for every planned pod address of the rail, at most MAX_DEVICES: rail3-0, rail3-1, ...
    sriov      a device for every VF that has an address: rail3-0 is VF 0
    move       one device, the port itself: rail3

A device is healthy while its port is up and has carrier. A VF must also be usable: with a driver, and with an RDMA
device if its port has a hardware one. A device that is in a pod cannot be inspected from the host; it has the health
of its port, because the kubelet would otherwise treat it as lost. Without a record of the pod it counts as absent.
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
"""Maximum number of macvlan devices of a rail. No kubelet runs more pods (its maxPods is 110 by default)."""


def read_offer(node: NodePlan, moved_devices: Collection[Slot], sysfs: Path = hardware.SYSFS) -> Offer:
    """Return the devices of the node by rail. Raises OSError, NetlinkError.

    `moved_devices` are the ports and VFs that are in pods.
    """
    with Socket() as sock:
        links = {port.netdev: link for port in node.ports if (link := _read_link(sock, port.netdev)) is not None}
    numa = {port.netdev: hardware.read_numa_node(hardware.locate_port(port.netdev, sysfs)) for port in node.ports}
    return build_offer(node, links, {*moved_devices, *list_usable_vfs(node, sysfs)}, numa)


def _read_link(sock: Socket, netdev: str) -> Link | None:
    """Return the link of one port, or None if it is missing. A list of all links is slow on a node with many pods."""
    try:
        return get_link(sock, netdev)
    except RequestError as error:
        if error.errno != errno.ENODEV:
            raise
        return None


def list_usable_vfs(node: NodePlan, sysfs: Path) -> list[Slot]:
    """Return the VFs on the host that a pod can use."""
    return [
        (port.rail, vf) for port in node.ports for vf in range(node.common.vfs) if _is_vf_usable(port.netdev, vf, sysfs)
    ]


def _is_vf_usable(netdev: str, vf: int, sysfs: Path) -> bool:
    """Return whether a VF has a driver, and an RDMA device if its port has one."""
    folder = hardware.locate_vf(netdev, vf, sysfs)
    lacks_rdma = hardware.read_rdma_device_name(
        hardware.locate_port(netdev, sysfs)
    ) and not hardware.read_rdma_device_name(folder)
    return hardware.read_interface_name(folder) is not None and not lacks_rdma


def build_offer(
    node: NodePlan, links: Mapping[str, Link], available: Collection[Slot], numa_nodes: Mapping[str, int | None]
) -> dict[int, tuple[Device, ...]]:
    """Return the devices of the node by rail.

    Args:
        node: the plan of the node.
        links: the ports by name.
        available: ports and VFs that are in a pod or can be moved into one.
        numa_nodes: NUMA node of each port by name; None if unknown.
    """
    offer = {}
    for port in node.ports:
        link = links.get(port.netdev)
        carrier = link is not None and link.is_up and link.carrier
        health = _map_device_health(node, port, available, carrier=carrier)
        offer[port.rail] = tuple(
            Device(device, healthy, numa_nodes.get(port.netdev)) for device, healthy in health.items()
        )
    return offer


def _map_device_health(
    node: NodePlan, port: PortPlan, available: Collection[Slot], *, carrier: bool
) -> dict[str, bool]:
    """Return whether each device of a port is healthy, by device id."""
    rail = port.rail
    match node.common.pod_mode:
        case "move":
            return {f"rail{rail}": carrier or (rail, PORT_ITSELF) in available}
        case "sriov":
            count = min([node.common.vfs, *(addressed.pods_count for addressed in port.addresses)])
            return {format_device_id(rail, vf): carrier and (rail, vf) in available for vf in range(count)}
        case _:
            count = min((addressed.pods_count for addressed in port.addresses), default=0)
            return {format_device_id(rail, number): carrier for number in range(min(count, MAX_DEVICES))}
