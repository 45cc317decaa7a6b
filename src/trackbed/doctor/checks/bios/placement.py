"""Placement of the ports: NUMA node, distance to the GPU, and ACS on the bridges between port and GPU."""

from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.hardware import (
    BUSES,
    DEVICES,
    NVIDIA_NIC,
    is_virtual,
    is_x86,
    iter_pci_functions,
    list_accelerators,
    list_bridges,
    read_device_id,
    read_pci_attribute,
)
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.snapshot import pci as registers
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

ONLINE = "/sys/devices/system/node/online"
READS = Wanted(files=(f"{DEVICES}/{{pci}}/numa_node", ONLINE, f"{BUSES}/*/device/config"))

_DATA_DIRECT = {(NVIDIA_NIC, "0x1023")}
"""(vendor, device) of ConnectX-8, which moves GPU data through a PCI function other than the port's."""


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check each port's placement."""
    has_numa = (host.read_text(ONLINE) or "0") != "0"
    is_physical = is_x86(host) and not is_virtual(host)
    for port, pci in iter_pci_functions(view, host):
        if has_numa:
            yield from check_numa_node(view, host, port, pci)
        if is_physical and read_device_id(host, pci) not in _DATA_DIRECT:
            yield from check_gpu_distance(view, host, port, pci)


def needs_isolation(view: NodeView) -> bool:
    """Return whether ACS stays on by plan: the Fabric enables it, or has an IOMMU for virtual machines."""
    common = view.node.common
    has_iommu = common.kernel is not None and common.kernel.iommu
    return common.acs == "enabled" or (common.acs == "leave" and has_iommu)


def check_numa_node(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    """Check that the firmware assigned the port to a NUMA node."""
    node = read_pci_attribute(host, pci, "numa_node")
    if node is not None:
        evidence = f"{DEVICES}/{pci}/numa_node is {node}, nodes {host.read_text(ONLINE)} are online"
        yield build_finding("bios-numa-node-unknown", view.node, port, ok=not node.startswith("-"), evidence=evidence)


def check_gpu_distance(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    """Check that the port shares a PCIe switch with its GPUs, and that ACS redirects no traffic between them."""
    accelerators = list_accelerators(host)
    gpus = [accelerators[gpu] for gpu in port.gpus if gpu < len(accelerators)]
    if not gpus:
        return
    port_bridges, gpu_bridges = set(list_bridges(host, pci)), {gpu: set(list_bridges(host, gpu)) for gpu in gpus}
    far = [gpu for gpu, bridges in gpu_bridges.items() if not port_bridges & bridges]
    evidence = f"no PCIe switch joins {pci} and GPU {', '.join(far)}" if far else f"{pci} and GPU {', '.join(gpus)}"
    yield build_finding("bios-nic-not-beside-gpu", view.node, port, ok=not far, evidence=evidence)
    if needs_isolation(view):
        return
    between = sorted({bridge for bridges in gpu_bridges.values() for bridge in port_bridges ^ bridges})
    configs = {bridge: _read_config_space(host, bridge) for bridge in between}
    if any(registers.is_readable(config) for config in configs.values()):
        controls = {bridge: registers.read_acs(config) for bridge, config in configs.items()}
        redirecting = [
            f"{bridge} ACSCtl {control:#06x}"
            for bridge, control in controls.items()
            if control and control & registers.ACS_REDIRECTS
        ]
        evidence = ", ".join(redirecting)
        yield build_finding("bios-acs-redirect-on", view.node, port, ok=not redirecting, evidence=evidence)
    elif between:
        yield build_finding(
            "bios-acs-redirect-on", view.node, port, ok=None, evidence="config space can be read by root only"
        )


def _read_config_space(host: Snapshot, bridge: str) -> bytes:
    """Return a bridge's configuration space, read through a bus below it; empty if unreadable."""
    below = next((link for link in host.glob(f"{BUSES}/*/device") if host.get_target(link) == bridge), None)
    content = host.read_bytes(f"{below}/config") if below else None
    return content if isinstance(content, bytes) else b""
