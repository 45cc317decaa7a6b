"""Step vfs: every port has as many virtual functions as the plan gives to pods, and each may do what the plan allows.

    sriov_drivers_autoprobe   1: a new VF gets its driver, so that it has an interface and an RDMA device
    sriov_numvfs              the count
    trust, spoof check        whether a VF may change its MAC address, and whether frames with a foreign one are dropped
    MTU                       of the VF's interface, not above the port's

The first two are files (Documentation/PCI/pci-iov-howto.rst, Documentation/ABI/testing/sysfs-bus-pci); trust and spoof
check are set through the port (rtnetlink, IFLA_VF_TRUST and IFLA_VF_SPOOFCHK; ip-link(8)). The count comes before
everything that configures a port, because making VFs resets some ports; the next boot makes them in Trackbed's boot
unit (`steps.boot`) before kubelet asks for devices. Without it pods wait for devices that no node offers.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.host.kinds import vf_count, vf_guard, vf_mtu, vf_probe
from trackbed.host.setting import Setting

STEP = "vfs"
IS_RENDERED = False
HAS_FILES = False


def list_settings(node: NodePlan) -> Iterator[Setting]:
    """Port by port, its count first; nothing where the plan has no VFs: then they are another's affair."""
    for port in node.ports if node.common.vfs else ():
        for want, why in _list_wants(node, port):
            yield Setting(STEP, want, port.rail, why)


def _list_wants(node: NodePlan, port: PortPlan) -> Iterator[tuple[object, str]]:
    common, rail = node.common, port.rail
    yield vf_probe.Want(port.netdev, port.pci), f"VFs of rail {rail} need a driver to have an RDMA device"
    yield vf_count.Want(port.netdev, port.pci, common.vfs), f"pods take VFs of rail {rail}"
    if common.link_type != "ethernet":
        return
    for vf in range(common.vfs):
        guard = vf_guard.Want(port.netdev, vf, common.vf_trust, common.vf_spoof_check)
        yield guard, f"what a pod may send on rail {rail} is the Fabric's to say"
        mtu = vf_mtu.Want(port.netdev, port.pci, vf, common.vf_mtu_bytes)
        yield mtu, f"pods of rail {rail} send packets as large as planned"
