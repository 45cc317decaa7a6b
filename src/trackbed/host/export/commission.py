"""The hardware that the plan expects, and the program with which MAAS checks that a machine has it.

The program is the file `commissioning.txt`, for the Python of MAAS' ephemeral system, standard library only. The
expected hardware is inserted as JSON. Nodes with the same hardware share one entry, so a thousand equal nodes add
little text.
"""

from collections.abc import Iterable
from importlib import resources
from typing import Any

import msgspec

from trackbed.fabric.plan.plan import NodePlan

NAME = "50-trackbed"
"""MAAS runs commissioning scripts in order of name; 50 comes after MAAS's own hardware listing."""


def render_program(nodes: Iterable[NodePlan]) -> str:
    """Render the commissioning script for these nodes."""
    text = resources.files("trackbed.host.export").joinpath("commissioning.txt").read_text("utf-8")
    return text.replace("@NAME@", NAME).replace(
        "@EXPECTED@", msgspec.json.encode(build_hardware_document(nodes)).decode()
    )


def build_hardware_document(nodes: Iterable[NodePlan]) -> dict[str, Any]:
    """Return `machines`, the hardware of each type of node, and `hosts`, node name -> index into `machines`."""
    machines: dict[bytes, int] = {}
    hosts = {
        node.name: machines.setdefault(msgspec.json.encode(build_machine_document(node)), len(machines))
        for node in nodes
    }
    return {"hosts": hosts, "machines": [msgspec.json.decode(raw) for raw in machines]}


def build_machine_document(node: NodePlan) -> dict[str, Any]:
    """Return a node's hardware: ports, VFs per port, whether it needs an IOMMU, memory for huge pages in KiB."""
    kernel = node.common.kernel
    return {
        "ports": [{"rail": port.rail, "pci": port.pci, "mac": port.mac} for port in node.ports],
        "nic": node.nic,
        "vfs": node.common.vfs,
        "iommu": bool(kernel and kernel.iommu),
        "hugepages_kib": sum(size_kib * count for size_kib, count in kernel.hugepages) if kernel else 0,
    }
