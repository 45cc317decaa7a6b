"""Step firmware: the NIC's firmware allows the planned VFs and has the planned link layer.

    SRIOV_EN, NUM_OF_VFS   SR-IOV is enabled, with at least the planned number of VFs
    LINK_TYPE_P1           Ethernet or InfiniBand (P2 on the second function of a card)

The parameters are in the NIC's flash (mlxconfig of NVIDIA's MFT or mstflint) and take effect at the next reset of the
firmware. They are written only if the Fabric has `firmware.parameters: write` or `reset`. Without them `sriov_totalvfs`
is 0 or too small, or the rail comes up with the other link layer. Only NVIDIA's NICs are queried, and only if the
Fabric has the NIC and the port's PCI address.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.host.kinds.firmware import Parameter, Want
from trackbed.host.setting import Setting

STEP = "firmware"

_NVIDIA = "15b3"
_LINK_TYPES = {"infiniband": "1", "ethernet": "2"}


def iter_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield one setting for each port, because each query of a NIC takes a second, however many parameters it reads."""
    if (node.nic or "").partition(":")[0] != _NVIDIA:
        return
    policy = node.common.nic_firmware
    last_functions = {_get_card(port): port for port in node.ports if port.pci}
    for port in node.ports:
        if port.pci:
            is_reset = policy == "reset" and last_functions[_get_card(port)] is port
            want = Want(port.netdev, port.pci, tuple(_iter_parameters(node, port)), policy != "leave", is_reset)
            yield Setting(STEP, want, port.rail, f"the NIC of rail {port.rail} must offer what the plan takes")


def _get_card(port: PortPlan) -> str:
    """Return the PCI address of a port's card; a reset of one function resets all functions of the card."""
    return (port.pci or "").rpartition(".")[0]


def _iter_parameters(node: NodePlan, port: PortPlan) -> Iterator[Parameter]:
    count = node.common.vfs
    if count:
        yield Parameter("SRIOV_EN", "1")
        yield Parameter("NUM_OF_VFS", str(count), at_least=True)
    number = 2 if (port.pci or "").endswith(".1") else 1
    yield Parameter(f"LINK_TYPE_P{number}", _LINK_TYPES[node.common.link_type])
