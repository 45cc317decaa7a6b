"""Step firmware: the NIC's own configuration lets the driver make VFs, and speaks the planned link layer.

    SRIOV_EN, NUM_OF_VFS   VFs can be made, at least as many as planned
    LINK_TYPE_P1           Ethernet or InfiniBand (P2 on the second function of a card)

These lie in the NIC's flash (mlxconfig of NVIDIA's MFT or mstflint); a change counts from the next reset of the
firmware. Without them `sriov_totalvfs` is 0 or too small, or the rail comes up in the other link layer. Only NVIDIA's
NICs are asked, and only where the Fabric names the NIC and the port's PCI address.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.host.kinds.firmware import Parameter, Want
from trackbed.host.setting import Setting

STEP = "firmware"
IS_RENDERED = False
HAS_FILES = False

_NVIDIA = "15b3"
_LINK_TYPES = {"infiniband": "1", "ethernet": "2"}


def list_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield one setting for each port: each query of a NIC takes a second, however many parameters it reads."""
    if (node.nic or "").partition(":")[0] != _NVIDIA:
        return
    for port in node.ports:
        if port.pci:
            want = Want(port.netdev, port.pci, tuple(_list_parameters(node, port)))
            yield Setting(STEP, want, port.rail, f"the NIC of rail {port.rail} must offer what the plan takes")


def _list_parameters(node: NodePlan, port: PortPlan) -> Iterator[Parameter]:
    count = node.common.vfs
    if count:
        yield Parameter("SRIOV_EN", "1")
        yield Parameter("NUM_OF_VFS", str(count), at_least=True)
    number = 2 if (port.pci or "").endswith(".1") else 1
    yield Parameter(f"LINK_TYPE_P{number}", _LINK_TYPES[node.common.link_type])
