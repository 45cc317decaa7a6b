"""What of each rail the kubelet may hand out: a function of the plan and of the ports as they are.

    macvlan    a device for every address that the plan has for pods on the rail, at most MOST: rail3-0, rail3-1, ...
    move       one device, the port itself: rail3

A device is healthy while its port is up and has carrier. A port that is in a pod is not seen here and stays healthy,
or the kubelet would count it as lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from trackbed.agent.kubelet.messages import Device, Offer
from trackbed.netlink.links import Link, list_links
from trackbed.netlink.sockets import Socket
from trackbed.plan.plan import NodePlan, PortPlan

MOST = 256
"""More pods than that no kubelet runs (its maxPods is 110 unless set)."""


def look(node: NodePlan, away: Collection[str]) -> Offer:
    """What there is now; `away` are the ports that are in pods. OSError, NetlinkError where the kernel cannot say."""
    with Socket() as sock:
        links = {link.name: link for link in list_links(sock)}
    return offer(node, links, away, {port.netdev: numa_node(port.netdev) for port in node.ports})


def offer(
    node: NodePlan, links: Mapping[str, Link], away: Collection[str], numa: Mapping[str, int | None]
) -> dict[int, tuple[Device, ...]]:
    """What there is, given the ports by name, those that are in pods, and where they sit."""
    found = {}
    for port in node.ports:
        healthy = port.netdev in away or _carries(links.get(port.netdev))
        found[port.rail] = tuple(Device(one, healthy, numa.get(port.netdev)) for one in _ids(node, port))
    return found


def numa_node(netdev: str) -> int | None:
    """The NUMA node of a port's PCI device; None where the machine has none or the port is away."""
    with suppress(OSError, ValueError):
        number = int(Path("/sys/class/net", netdev, "device/numa_node").read_text())
        return number if number >= 0 else None
    return None


def _carries(link: Link | None) -> bool:
    return link is not None and link.up and link.carrier


def _ids(node: NodePlan, port: PortPlan) -> list[str]:
    if node.common.pod_mode == "move":
        return [f"rail{port.rail}"]
    count = min((own.pods_count for own in port.addressed), default=0)
    return [f"rail{port.rail}-{number}" for number in range(min(count, MOST))]
