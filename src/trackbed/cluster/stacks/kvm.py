"""Stack kvm: libvirt passes each rail's port, or a VF of it, through to virtual machines.

Ports are assigned by PCI address (hostdev). VFs come from a pool for each port (a libvirt network of forward mode
hostdev): libvirt assigns a free VF when a machine starts and releases it afterwards, so no VF address is configured.
Machines on identical hypervisors have the same devices, hence one folder for each group of nodes. Source: libvirt.org,
formatdomain, "Host device assignment" and "Network interfaces"; formatnetwork, "Using an SR-IOV VF pool".
"""

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from trackbed.cluster.stacks.groups import HardwareGroup, group_nodes
from trackbed.cluster.stacks.pci import find_pci_address
from trackbed.cluster.stacks.stack import Stack
from trackbed.cluster.stacks.traits import NO_PODS, Share, Traits
from trackbed.fabric.host_ranges import fold_hosts
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, PortPlan, RailPlan

_PCI_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")

_ATTACH_HEADER = """\
#!/bin/sh
# Adds the rails to virtual machine $1, on hypervisors {nodes}.
# They take effect when the machine starts next. A second run adds only what is missing.
set -eu
cd "$(dirname "$0")"
vm=${{1:?usage: attach.sh VM}}
has() {{ virsh dumpxml --inactive "$vm" | grep -qF "'$1'"; }}
"""


def _render_files(plan: Plan) -> dict[str, str]:
    return {name: text for group in group_nodes(plan) for name, text in _render_group_files(plan, group)}


def _render_group_files(plan: Plan, group: HardwareGroup) -> Iterator[tuple[str, str]]:
    folder = "" if group.is_only_group else f"group-{group.index}/"
    for port in group.ports:
        rail = plan.common.rails[port.rail]
        if plan.common.vfs:
            yield f"{folder}network-{rail.network}.xml", _render_xml(_build_vf_pool(rail, port))
            yield f"{folder}{rail.network}.xml", _render_xml(_build_vf_interface(rail))
        else:
            yield f"{folder}{rail.network}.xml", _render_xml(_build_port_device(rail, port))
    yield f"{folder}attach.sh", "".join(_render_attach_script(plan, group))


def _render_xml(element: Element) -> str:
    indent(element)
    return tostring(element, encoding="unicode") + "\n"


def _build_port_device(rail: RailPlan, port: PortPlan) -> Element:
    """Return the XML of a port as a host device. As it is managed, libvirt unbinds and rebinds the port's driver."""
    device = Element("hostdev", mode="subsystem", type="pci", managed="yes")
    source = SubElement(device, "source")
    match = _PCI_ADDRESS.fullmatch(find_pci_address(port) or "")
    parts = match.groups() if match else ()
    names = ("domain", "bus", "slot", "function")
    SubElement(source, "address", {name: f"0x{part}" for name, part in zip(names, parts, strict=False)})
    SubElement(device, "alias", name=_get_device_alias(rail))
    return device


def _build_vf_pool(rail: RailPlan, port: PortPlan) -> Element:
    """Return the XML of the libvirt network that is the pool of a port's VFs."""
    network = Element("network")
    SubElement(network, "name").text = rail.network
    forward = SubElement(network, "forward", mode="hostdev", managed="yes")
    SubElement(forward, "pf", dev=port.netdev)
    return network


def _build_vf_interface(rail: RailPlan) -> Element:
    """Return the XML of a machine's interface that takes a VF from the rail's pool."""
    interface = Element("interface", type="network")
    SubElement(interface, "source", network=rail.network)
    SubElement(interface, "alias", name=_get_device_alias(rail))
    return interface


def _get_device_alias(rail: RailPlan) -> str:
    """Return the alias of a rail's device in the machine's XML; libvirt requires prefix `ua-` for user aliases."""
    return f"ua-{rail.network}"


def _render_attach_script(plan: Plan, group: HardwareGroup) -> Iterator[str]:
    yield _ATTACH_HEADER.format(nodes=fold_hosts(node.name for node in group.nodes))
    names = [plan.common.rails[port.rail].network for port in group.ports]
    for name in names if plan.common.vfs else ():
        yield f"virsh net-info {name} >/dev/null 2>&1 || virsh net-define network-{name}.xml\n"
        yield f"virsh net-autostart {name}\n"
        yield f"virsh net-list --name | grep -qx {name} || virsh net-start {name}\n"
    for name in names:
        yield f'has ua-{name} || virsh attach-device "$vm" {name}.xml --config\n'


def _find_refusals(plan: Plan) -> Iterator[Problem]:
    if plan.common.vfs:
        if plan.common.link_type != "ethernet":
            yield Problem(
                "stack-link-type",
                "libvirt sets a MAC address on each VF of a pool, which InfiniBand VFs refuse; write vfs.count 0, and "
                "the ports themselves go into the machines",
                ("spec", "vfs", "count"),
            )
        return
    for group in group_nodes(plan):
        unknown = [port.netdev for port in group.ports if find_pci_address(port) is None]
        if unknown:
            hosts = fold_hosts(node.name for node in group.nodes)
            yield Problem(
                "stack-needs-pci",
                f"the PCI addresses of {', '.join(unknown)} on {hosts} are unknown, and machines get ports by them; "
                "write ports as PCI addresses, or vfs.count 1 or more to hand out VFs by the ports' names",
                ("spec", "nodes"),
            )


def _find_share(plan: Plan) -> Share:
    return Share.VF if plan.common.vfs else Share.PORT


STACK = Stack(
    name="kvm",
    title="Virtual machines by libvirt: the ports themselves by PCI address, or a VF of each from libvirt's pools",
    traits=Traits(_find_share, "released", "files for libvirt", lambda _: NO_PODS, only_for="virtual machines"),
    needs=(
        "libvirt and QEMU on the hypervisors, VFIO, the IOMMU on (kernel.iommu passthrough in the Fabric)",
        "memory of the machines is locked as a whole: no overcommitment",
        "in the machine: addresses on its rails as planned, and an NCCL topology file where GPUs and NICs are virtual",
    ),
    cannot=(
        "live migration",
        "InfiniBand VFs from pools",
        "the host's PCI tree inside the machine: GPU and NIC look equally far",
    ),
    files=_render_files,
    refusals=_find_refusals,
)
