"""Which hardware the plan expects, and the program that MAAS runs on a machine to look whether it is there.

The program is a text of its own (`commissioning.txt`), for the Python of MAAS' ephemeral system, standard library only;
what it expects is put into it as JSON. Nodes with the same hardware share one entry, so a thousand alike cost a line.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from typing import Any

import msgspec

from trackbed.fabric.plan.plan import NodePlan, PortPlan

NAME = "50-trackbed"
"""MAAS runs commissioning scripts in order of their names; 50 is after its own hardware listing."""


def render_program(nodes: Iterable[NodePlan]) -> str:
    """Render the commissioning script for these nodes."""
    text = resources.files("trackbed.host.export").joinpath("commissioning.txt").read_text("utf-8")
    return text.replace("@NAME@", NAME).replace("@EXPECTED@", msgspec.json.encode(list_hardware(nodes)).decode())


def list_hardware(nodes: Iterable[NodePlan]) -> dict[str, Any]:
    """Return `hosts`, name -> index into `machines`, and `machines`, the hardware of each type of node."""
    machines: dict[bytes, int] = {}
    hosts = {
        node.name: machines.setdefault(msgspec.json.encode(describe_machine(node)), len(machines)) for node in nodes
    }
    return {"hosts": hosts, "machines": [msgspec.json.decode(raw) for raw in machines]}


def describe_machine(node: NodePlan) -> dict[str, Any]:
    """Return the ports, VFs of each, whether an IOMMU is required, and memory for huge pages in KiB."""
    kernel = node.common.kernel
    return {
        "ports": [_describe_port(port) for port in node.ports],
        "nic": node.nic,
        "vfs": node.common.vfs,
        "iommu": bool(kernel and kernel.iommu),
        "hugepages_kib": sum(size_kib * count for size_kib, count in kernel.hugepages) if kernel else 0,
    }


def _describe_port(port: PortPlan) -> dict[str, Any]:
    return {"rail": port.rail, "pci": port.pci, "mac": port.mac}
