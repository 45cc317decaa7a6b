"""Step addresses: every port has its MTU, is up, and has exactly the planned address of each IP version.

Wanted: what `trackbed plan` prints. The order matters: router advertisements are refused before the port comes up, or
the first one leaves an address and a default route behind (accept_ra, and keep_addr_on_down, by which IPv6 addresses
outlive a flap as IPv4 ones do: Documentation/networking/ip-sysctl.rst); and the MTU stands before traffic does. Without
the MTU RDMA silently falls back to a smaller path MTU; without the address nothing works.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.host.kinds import address, mtu, sysctl, up
from trackbed.host.setting import Setting

STEP = "addresses"
IS_RENDERED = True
HAS_FILES = False


def list_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield the settings of all ports, then their addresses."""
    for port in node.ports:
        yield from _list_link_settings(port, node.common.mtu_bytes)
    for port in node.ports:
        for address_plan in port.addresses:
            want = address.Want(port.netdev, address_plan)
            yield Setting(STEP, want, port.rail, f"the plan's address of rail {port.rail}")


def _list_link_settings(port: PortPlan, mtu_bytes: int) -> Iterator[Setting]:
    refuse = sysctl.Want(f"net/ipv6/conf/{port.netdev}/accept_ra", "0")
    yield Setting(STEP, refuse, port.rail, "a router advertisement would put a default route on the rail")
    if port.v6:
        keep = sysctl.Want(f"net/ipv6/conf/{port.netdev}/keep_addr_on_down", "1")
        yield Setting(STEP, keep, port.rail, "without it a link flap takes the IPv6 address away for good")
    yield Setting(STEP, mtu.Want(port.netdev, mtu_bytes), port.rail, "RDMA's path MTU must fit, on every port alike")
    yield Setting(STEP, up.Want(port.netdev), port.rail, "a port that is down carries nothing")
