"""Node labels of the fabric, set by Node Feature Discovery (NodeFeatureRule, nfd.k8s-sigs.io/v1alpha1).

A node gets the fabric's label when the hardware of all its rails is present, so no operator configures an incomplete
node. On stacks that move ports into pods, a port disappears from the host's network devices while a pod has it, and the
label would be removed. On these stacks rules match the node's name and the NIC's PCI ids instead of port names. NFD
refuses labels in kubernetes.io.
"""

from collections.abc import Iterator

from trackbed.cluster.stacks.groups import HardwareGroup, group_nodes
from trackbed.cluster.stacks.objects import Manifest, build_manifest
from trackbed.fabric.plan.plan import NodePlan, Plan

API = "nfd.k8s-sigs.io/v1alpha1"

MAX_NODES_PER_RULE = 1000
"""Largest number of nodes in a rule, which keeps it far below etcd's size limit even with node names of 253 bytes."""


def build_node_feature_rules(
    plan: Plan, *, ports_stay: bool | None = None, openshift: bool = False
) -> Iterator[Manifest]:
    """Yield NodeFeatureRules, one for each 1000 nodes of a group.

    `ports_stay` is whether ports always stay on the host; None means only with pods.mode macvlan. On OpenShift the
    rules have another API group and a namespace.
    """
    api, namespace = ("nfd.openshift.io/v1alpha1", "openshift-nfd") if openshift else (API, None)
    keep = plan.common.pod_mode == "macvlan" if ports_stay is None else ports_stay
    for group in group_nodes(plan):
        for part, start in enumerate(range(0, len(group.nodes), MAX_NODES_PER_RULE)):
            nodes = group.nodes[start : start + MAX_NODES_PER_RULE]
            name = f"trackbed-{plan.common.fabric}-{group.index}-{part}"
            yield build_manifest(
                api,
                "NodeFeatureRule",
                name,
                namespace,
                spec={"rules": [_build_rule(name, group, nodes, ports_stay=keep)]},
            )


def _build_rule(
    rule_name: str, group: HardwareGroup, nodes: tuple[NodePlan, ...], *, ports_stay: bool
) -> dict[str, object]:
    hardware = _build_port_matchers(group) if ports_stay else _build_card_matchers(group)
    node_names = {
        "feature": "system.name",
        "matchExpressions": {"nodename": _build_in_expression(*(node.name for node in nodes))},
    }
    return {"name": rule_name, "labels": group.node_labels, "matchFeatures": [node_names, *hardware]}


def _build_port_matchers(group: HardwareGroup) -> list[dict[str, object]]:
    """Return a matcher for each port by its name; a single matcher with all names would match if any port exists."""
    return [
        {"feature": "network.device", "matchExpressions": {"name": _build_in_expression(port.netdev)}}
        for port in group.ports
    ]


def _build_card_matchers(group: HardwareGroup) -> list[dict[str, object]]:
    """Return a matcher for the NIC by PCI vendor and device id; empty if the Fabric does not have them."""
    if group.nodes[0].nic is None:
        return []
    vendor, device = group.nodes[0].nic.split(":")
    return [
        {
            "feature": "pci.device",
            "matchExpressions": {"vendor": _build_in_expression(vendor), "device": _build_in_expression(device)},
        }
    ]


def _build_in_expression(*values: str) -> dict[str, object]:
    return {"op": "In", "value": list(values)}
