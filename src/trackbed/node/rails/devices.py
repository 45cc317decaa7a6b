"""What of each rail the kubelet may hand out: a function of the plan and of the ports as they are.

    macvlan    a device for every address that the plan has for pods on the rail, at most MOST: rail3-0, rail3-1, ...
    sriov      a device for every VF that has an address: rail3-0 is VF 0
    move       one device, the port itself: rail3

A device is healthy while its port is up and has carrier; a VF too must be there: with a driver, and with an RDMA device
where the port has one of hardware. What is in a pod is not seen here and stays as healthy as its port, or the kubelet
would count it as lost; what is in a pod that is not on record is not there.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Mapping
from pathlib import Path

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.kernel.netlink.links import Link, get_link
from trackbed.kernel.netlink.sockets import RequestError, Socket
from trackbed.node.rails import hardware
from trackbed.node.rails.attachment import PORT_ITSELF
from trackbed.node.rails.choice import device_id
from trackbed.node.rails.kubelet.messages import Device, Offer
from trackbed.node.rails.store import Place

MOST = 256
"""More pods than that no kubelet runs (its maxPods is 110 unless set)."""


def look(node: NodePlan, away: Collection[Place], sysfs: Path = hardware.SYSFS) -> Offer:
    """What there is now; `away` are the ports and VFs that are in pods.

    Raises OSError, NetlinkError: the kernel cannot say.
    """
    with Socket() as sock:
        links = {port.netdev: link for port in node.ports if (link := _link(sock, port.netdev)) is not None}
    numa = {port.netdev: hardware.numa_node(hardware.port(port.netdev, sysfs)) for port in node.ports}
    return offer(node, links, {*away, *there(node, sysfs)}, numa)


def _link(sock: Socket, netdev: str) -> Link | None:
    """One port, asked for alone: a node with many pods has many links besides."""
    try:
        return get_link(sock, netdev)
    except RequestError as error:
        if error.errno != errno.ENODEV:
            raise
        return None


def there(node: NodePlan, sysfs: Path) -> list[Place]:
    """The VFs on the node that a pod can use."""
    return [(port.rail, vf) for port in node.ports for vf in range(node.common.vfs) if _usable(port.netdev, vf, sysfs)]


def _usable(netdev: str, vf: int, sysfs: Path) -> bool:
    own = hardware.vf(netdev, vf, sysfs)
    wanting = hardware.rdma_device(hardware.port(netdev, sysfs)) and not hardware.rdma_device(own)
    return hardware.interface(own) is not None and not wanting


def offer(
    node: NodePlan, links: Mapping[str, Link], present: Collection[Place], numa: Mapping[str, int | None]
) -> dict[int, tuple[Device, ...]]:
    """What there is, given the ports by name, what is in pods or can be, and where the ports sit."""
    found = {}
    for port in node.ports:
        carries, own_numa = _carries(links.get(port.netdev)), numa.get(port.netdev)
        found[port.rail] = tuple(
            Device(one, healthy, own_numa) for one, healthy in _of_port(node, port, present, carries=carries)
        )
    return found


def _of_port(node: NodePlan, port: PortPlan, present: Collection[Place], *, carries: bool) -> list[tuple[str, bool]]:
    rail = port.rail
    match node.common.pod_mode:
        case "move":
            return [(f"rail{rail}", carries or (rail, PORT_ITSELF) in present)]
        case "sriov":
            count = min([node.common.vfs, *(own.pods_count for own in port.addresses)])
            return [(device_id(rail, vf), carries and (rail, vf) in present) for vf in range(count)]
        case _:
            count = min((own.pods_count for own in port.addresses), default=0)
            return [(device_id(rail, number), carries) for number in range(min(count, MOST))]


def _carries(link: Link | None) -> bool:
    return link is not None and link.up and link.carrier
