"""Groups of nodes with identical NICs, for objects that select ports by PCI address or name."""

from dataclasses import dataclass
from typing import Any

from trackbed.fabric.plan.plan import NodePlan, Plan, PortPlan

FABRIC_LABEL = "trackbed.dev/fabric"
"""Label of the nodes whose rails are all present; its value is the name of the fabric."""
GROUP_LABEL = "trackbed.dev/group"
"""Label of the nodes of a group, set only if the fabric has more than one group; its value is the group's index."""


@dataclass(frozen=True, slots=True)
class HardwareGroup:
    """Nodes whose ports have the same rails, names and PCI addresses."""

    index: int
    nodes: tuple[NodePlan, ...]
    is_only_group: bool
    """Whether this is the only group of the fabric."""

    @property
    def ports(self) -> tuple[PortPlan, ...]:
        """The first node's ports in rail order; rails, names and PCI addresses are the same on all nodes."""
        return self.nodes[0].ports

    @property
    def node_labels(self) -> dict[str, str]:
        """The labels, name -> value, that select the nodes of the group."""
        group_label = {} if self.is_only_group else {GROUP_LABEL: str(self.index)}
        return {FABRIC_LABEL: self.nodes[0].common.fabric} | group_label


def group_nodes(plan: Plan) -> tuple[HardwareGroup, ...]:
    """Return the nodes grouped by NIC model and by rails, names and PCI addresses of ports, in order of appearance."""
    nodes_by_hardware: dict[object, list[NodePlan]] = {}
    for node in plan.nodes:
        key = (node.nic, tuple((port.rail, port.netdev, port.pci) for port in node.ports))
        nodes_by_hardware.setdefault(key, []).append(node)
    return tuple(
        HardwareGroup(index, tuple(nodes), len(nodes_by_hardware) == 1)
        for index, nodes in enumerate(nodes_by_hardware.values())
    )


def build_node_selector(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    """Return a NodeSelector (core/v1) that selects the fabric's nodes, for affinities and pools."""
    terms = [{"key": key, "operator": "In", "values": [value]} for key, value in get_node_labels(plan).items()]
    return {"nodeSelectorTerms": [{"matchExpressions": terms}]}


def get_node_labels(plan: Plan) -> dict[str, str]:
    """Return the labels, name -> value, that select all nodes of the fabric."""
    return {FABRIC_LABEL: plan.common.fabric}
