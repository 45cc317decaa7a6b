"""`kvm`: rails in virtual machines, by libvirt on the hypervisors: the ports themselves, or a VF of each.

Ports go by PCI address (hostdev). VFs come from a pool that libvirt keeps for each port (a network of forward mode
hostdev): it takes a free one when a machine starts and gives it back after, so no VF's address is written anywhere.
All machines' devices are the same on like nodes, hence one folder for each group of them.
libvirt.org: formatdomain, "Host device assignment" and "Network interfaces"; formatnetwork, "Using an SR-IOV VF pool".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from trackbed.cluster.stacks.groups import Group, groups
from trackbed.cluster.stacks.pci import pci_address
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.host_ranges import fold_hosts
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, PortPlan, RailPlan

_PCI = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")

_ATTACH = """\
#!/bin/sh
# Gives virtual machine $1 its rails, on hypervisors {nodes}.
# It has them from its next start on. Run again, it adds what is missing.
set -eu
cd "$(dirname "$0")"
vm=${{1:?usage: attach.sh VM}}
has() {{ virsh dumpxml --inactive "$vm" | grep -qF "'$1'"; }}
"""


def _files(plan: Plan) -> dict[str, str]:
    return {name: text for group in groups(plan) for name, text in _group_files(plan, group)}


def _group_files(plan: Plan, group: Group) -> Iterator[tuple[str, str]]:
    folder = "" if group.alone else f"group-{group.index}/"
    for port in group.ports:
        rail = plan.common.rails[port.rail]
        if plan.common.vfs:
            yield f"{folder}network-{rail.network}.xml", _text(_pool(rail, port))
            yield f"{folder}{rail.network}.xml", _text(_pooled(rail))
        else:
            yield f"{folder}{rail.network}.xml", _text(_port(rail, port))
    yield f"{folder}attach.sh", "".join(_script(plan, group))


def _text(element: Element) -> str:
    indent(element)
    return tostring(element, encoding="unicode") + "\n"


def _port(rail: RailPlan, port: PortPlan) -> Element:
    """The port itself; managed: libvirt takes it from its driver at start and gives it back after."""
    device = Element("hostdev", mode="subsystem", type="pci", managed="yes")
    source = SubElement(device, "source")
    found = _PCI.fullmatch(pci_address(port) or "")
    parts = found.groups() if found else ()
    names = ("domain", "bus", "slot", "function")
    SubElement(source, "address", {name: f"0x{part}" for name, part in zip(names, parts, strict=False)})
    SubElement(device, "alias", name=_alias(rail))
    return device


def _pool(rail: RailPlan, port: PortPlan) -> Element:
    """All VFs of a port."""
    network = Element("network")
    SubElement(network, "name").text = rail.network
    forward = SubElement(network, "forward", mode="hostdev", managed="yes")
    SubElement(forward, "pf", dev=port.netdev)
    return network


def _pooled(rail: RailPlan) -> Element:
    """An interface out of a rail's pool."""
    interface = Element("interface", type="network")
    SubElement(interface, "source", network=rail.network)
    SubElement(interface, "alias", name=_alias(rail))
    return interface


def _alias(rail: RailPlan) -> str:
    """A name by which the machine's XML tells the rail; libvirt wants `ua-` before names of users."""
    return f"ua-{rail.network}"


def _script(plan: Plan, group: Group) -> Iterator[str]:
    yield _ATTACH.format(nodes=fold_hosts(node.name for node in group.nodes))
    names = [plan.common.rails[port.rail].network for port in group.ports]
    for name in names if plan.common.vfs else ():
        yield f"virsh net-info {name} >/dev/null 2>&1 || virsh net-define network-{name}.xml\n"
        yield f"virsh net-autostart {name}\n"
        yield f"virsh net-list --name | grep -qx {name} || virsh net-start {name}\n"
    for name in names:
        yield f'has ua-{name} || virsh attach-device "$vm" {name}.xml --config\n'


def _refusals(plan: Plan) -> Iterator[Problem]:
    if plan.common.vfs:
        if plan.common.link_type != "ethernet":
            message = (
                "libvirt sets a MAC address on each VF of a pool, which InfiniBand VFs refuse; write vfs.count 0, and "
                "the ports themselves go into the machines"
            )
            yield Problem("stack-link-type", message, ("spec", "vfs", "count"))
        return
    for group in groups(plan):
        unknown = [port.netdev for port in group.ports if pci_address(port) is None]
        if unknown:
            hosts = fold_hosts(node.name for node in group.nodes)
            message = (
                f"the PCI addresses of {', '.join(unknown)} on {hosts} are unknown, and machines get ports by them; "
                "write ports as PCI addresses, or vfs.count 1 or more to hand out VFs by the ports' names"
            )
            yield Problem("stack-needs-pci", message, ("spec", "nodes"))


STACK = Stack(
    name="kvm",
    title="Virtual machines by libvirt: the ports themselves by PCI address, or a VF of each from libvirt's pools",
    needs=(
        "libvirt and QEMU on the hypervisors, VFIO, the IOMMU on (intel_iommu=on or amd_iommu=on)",
        "memory of the machines is locked as a whole: no overcommitment",
        "in the machine: addresses on its rails as planned, and an NCCL topology file where GPUs and NICs are virtual",
    ),
    cannot=(
        "live migration",
        "InfiniBand VFs from pools",
        "the host's PCI tree inside the machine: GPU and NIC look equally far",
    ),
    files=_files,
    refusals=_refusals,
)
