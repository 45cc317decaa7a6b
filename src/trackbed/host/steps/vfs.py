"""Step vfs: every port has the planned number of virtual functions, each with the planned permissions and MTU.

    sriov_drivers_autoprobe   1: a new VF gets its driver, so that it has an interface and an RDMA device
    sriov_numvfs              the count
    MAC address, GUIDs        of each VF, from slot, rail and number; on InfiniBand the VF's link follows the port's
    trust, spoof check        whether a VF may change its MAC address, and whether frames with a foreign one are dropped
    MTU                       of the VF's interface, not above the port's

The first two are files (Documentation/PCI/pci-iov-howto.rst, Documentation/ABI/testing/sysfs-bus-pci); addresses, trust
and spoof check are set through the port (rtnetlink, IFLA_VF_*; ip-link(8)). The count is set before all
other settings of a port, because the creation of VFs resets some ports. At a boot, Trackbed's boot unit creates the VFs
(`steps.boot`) before kubelet lists devices. Without VFs, pods wait for devices that no node offers.

NetworkManager would give a VF a connection with DHCP, when it is created and whenever it comes back from a pod. A udev
rule makes it leave the VFs of the ports alone (NetworkManager(8), "UDEV PROPERTIES"): those whose PCI function has the
port. It is there before the first VF.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.fabric.plan.vf_identity import derive_vf_guid, derive_vf_mac
from trackbed.host.kinds import file, vf_address, vf_count, vf_guard, vf_mtu, vf_probe
from trackbed.host.setting import HEAD, Setting

STEP = "vfs"
HAS_FILES = True

_NETWORKMANAGER = ("/usr/sbin/NetworkManager", "/usr/bin/NetworkManager")


def iter_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield the rules of udev, then the settings of each port, its count first; nothing if the plan has no VFs."""
    if not node.common.vfs:
        return
    rules = file.Want(
        file.VF_RULES,
        HEAD + "".join(map(_render_rule, node.ports)),
        _NETWORKMANAGER,
        "there is no NetworkManager here",
        reload_command=("udevadm", "control", "--reload"),
    )
    yield Setting(STEP, rules, None, "NetworkManager must not put addresses and routes on VFs")
    for port in node.ports:
        for want, why in _iter_wants(node, port):
            yield Setting(STEP, want, port.rail, why)


def _render_rule(port: PortPlan) -> str:
    match = f'SUBSYSTEM=="net", ACTION=="add|change|move", TEST=="device/physfn/net/{port.netdev}"'
    return f'{match}, ENV{{NM_UNMANAGED}}="1"\n'


def _iter_wants(node: NodePlan, port: PortPlan) -> Iterator[tuple[object, str]]:
    common, rail = node.common, port.rail
    yield vf_probe.Want(port.netdev, port.pci), f"VFs of rail {rail} need a driver to have an RDMA device"
    yield vf_count.Want(port.netdev, port.pci, common.vfs), f"pods take VFs of rail {rail}"
    for vf in range(common.vfs):
        yield build_address_want(node, port, vf), f"VFs of rail {rail} send frames, and rdma_cm finds their devices"
        if common.link_type != "ethernet":
            continue
        guard = vf_guard.Want(port.netdev, vf, common.vf_trust, common.vf_spoof_check)
        yield guard, f"what a pod may send on rail {rail} is the Fabric's to say"
        mtu = vf_mtu.Want(port.netdev, port.pci, vf, common.vf_mtu_bytes)
        yield mtu, f"pods of rail {rail} send packets as large as planned"


def build_address_want(node: NodePlan, port: PortPlan, vf: int) -> vf_address.Want:
    """Return the MAC address of a VF, or its GUID on InfiniBand."""
    is_guid = node.common.link_type == "infiniband"
    derive = derive_vf_guid if is_guid else derive_vf_mac
    return vf_address.Want(port.netdev, port.pci, vf, derive(node.slot, port.rail, vf), is_guid)
