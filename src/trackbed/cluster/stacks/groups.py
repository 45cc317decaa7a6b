"""Nodes whose ports are the same hardware: what selects ports by PCI address or name must tell the others apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trackbed.fabric.plan.plan import NodePlan, Plan, PortPlan

FABRIC_LABEL = "trackbed.dev/fabric"
"""Label of the nodes whose rails are all present; its value is the fabric's name."""
GROUP_LABEL = "trackbed.dev/group"
"""Label of nodes with equal ports, set only where a fabric has unlike ones; its value is the group's index."""


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes with equal ports; `ports` are those of the first of them, in rail order."""

    index: int
    nodes: tuple[NodePlan, ...]
    alone: bool
    """Whether it is the only group of the fabric."""

    @property
    def ports(self) -> tuple[PortPlan, ...]:
        """The ports, in rail order; name, PCI address and rail hold for all nodes of the group."""
        return self.nodes[0].ports

    @property
    def selector(self) -> dict[str, str]:
        """The labels that select these nodes."""
        own = {} if self.alone else {GROUP_LABEL: str(self.index)}
        return {FABRIC_LABEL: self.nodes[0].common.fabric} | own


def groups(plan: Plan) -> tuple[Group, ...]:
    """The nodes by their ports' rails, names, PCI addresses and device ids, in order of first appearance."""
    found: dict[object, list[NodePlan]] = {}
    for node in plan.nodes:
        key = (node.nic, tuple((port.rail, port.netdev, port.pci) for port in node.ports))
        found.setdefault(key, []).append(node)
    return tuple(Group(index, tuple(nodes), len(found) == 1) for index, nodes in enumerate(found.values()))


def node_selector(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    """The same as a NodeSelector (core/v1), which affinities and pools take."""
    terms = [{"key": key, "operator": "In", "values": [value]} for key, value in selector(plan).items()]
    return {"nodeSelectorTerms": [{"matchExpressions": terms}]}


def selector(plan: Plan) -> dict[str, str]:
    """The label that selects every node of the fabric."""
    return {FABRIC_LABEL: plan.common.fabric}
