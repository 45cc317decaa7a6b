"""Explanation of a name: the hosts and ports of a plan that have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.fabric.plan.plan import NodePlan, Plan, PortPlan

_SHOWN_NODES = 4


def explain_name(plan: Plan, name: str) -> list[str]:
    """Return lines about the host or the ports of this name, MAC or PCI address; empty if the plan has none."""
    node = plan.find_node(name.partition(".")[0]) or plan.find_node(name)
    return list(_iter_node_lines(node)) if node else _list_port_lines(plan, name.lower(), name)


def _iter_node_lines(node: NodePlan) -> Iterator[str]:
    common = node.common
    place = f"slot {node.slot}, unit {node.unit}"
    yield f"{node.name} is a node of fabric {common.fabric}: {place}, {len(node.ports)} ports"
    for port in node.ports:
        yield f"  rail {port.rail}: {_describe_port(port)}"


def _list_port_lines(plan: Plan, lowered: str, name: str) -> list[str]:
    hits = [
        (node, port)
        for node in plan.nodes
        for port in node.ports
        if name in {port.netdev, port.kernel_name} or lowered in {port.mac, port.pci}
    ]
    rails = sorted({port.rail for _, port in hits})
    if not hits:
        return []
    listed = ", ".join(map(str, rails))
    title = f"{name} is the port of rail {listed} on {len(hits)} of {len(plan.nodes)} nodes of {plan.common.fabric}"
    lines = [f"  {node.name}: {_describe_port(port)}" for node, port in hits[:_SHOWN_NODES]]
    others = len(hits) - len(lines)
    return [title, *lines, *([f"  and {others} more; `trackbed plan` lists all"] if others else [])]


def _describe_port(port: PortPlan) -> str:
    selector = port.pci or port.mac or port.kernel_name
    parts = [port.netdev, *([f"({selector})"] if selector else []), *map(str, port.addresses), f"on leaf {port.leaf}"]
    return " ".join(parts)
