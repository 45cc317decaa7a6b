"""Step addresses: every port has its MTU, is up, and has exactly the planned address of each IP version.

Wanted: the addresses that `trackbed plan` prints. Router advertisements are disabled before the port comes up, because
the first one would add an address and a default route (accept_ra). keep_addr_on_down keeps IPv6 addresses during a link
flap, as the kernel keeps IPv4 addresses (Documentation/networking/ip-sysctl.rst). Without the MTU, RDMA silently falls
back to a smaller path MTU; without the address, the port carries no traffic.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.host.kinds import address, mtu, sysctl, up
from trackbed.host.setting import Setting

STEP = "addresses"
IS_RENDERED = True


def iter_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield the settings of all ports, then their addresses."""
    for port in node.ports:
        yield from _iter_link_settings(port, node.common.mtu_bytes)
    for port in node.ports:
        for address_plan in port.addresses:
            want = address.Want(port.netdev, address_plan)
            yield Setting(STEP, want, port.rail, f"the plan's address of rail {port.rail}")


def _iter_link_settings(port: PortPlan, mtu_bytes: int) -> Iterator[Setting]:
    refuse = sysctl.Want(f"net/ipv6/conf/{port.netdev}/accept_ra", "0")
    yield Setting(STEP, refuse, port.rail, "a router advertisement would put a default route on the rail")
    if port.v6:
        keep = sysctl.Want(f"net/ipv6/conf/{port.netdev}/keep_addr_on_down", "1")
        yield Setting(STEP, keep, port.rail, "without it a link flap takes the IPv6 address away for good")
    yield Setting(STEP, mtu.Want(port.netdev, mtu_bytes), port.rail, "RDMA's path MTU must fit, on every port alike")
    yield Setting(STEP, up.Want(port.netdev), port.rail, "a port that is down carries nothing")
