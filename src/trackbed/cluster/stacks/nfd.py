"""Labels by which stacks select nodes, set by Node Feature Discovery (NodeFeatureRule, nfd.k8s-sigs.io/v1alpha1).

A node gets the fabric's label once the hardware of every rail is there, so no operator works on a node that lacks one.
Where a stack moves ports into pods they leave the host's list of network devices, and with them the label would go
while pods run: there the node's name and the card on its PCI bus decide. NFD refuses labels below kubernetes.io.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.cluster.stacks.groups import FABRIC_LABEL, Group, groups
from trackbed.cluster.stacks.objects import Manifest, manifest
from trackbed.fabric.plan.plan import NodePlan, Plan

API = "nfd.k8s-sigs.io/v1alpha1"
OPENSHIFT_API = "nfd.openshift.io/v1alpha1"
OPENSHIFT_NAMESPACE = "openshift-nfd"

NODES_EACH = 1000
"""Nodes a rule names at most: names of 253 bytes then stay far below what etcd takes in one object."""


def node_feature_rule(plan: Plan, *, ports_stay: bool | None = None, openshift: bool = False) -> Iterator[Manifest]:
    """A rule for each 1000 nodes of a group.

    `ports_stay` says whether the ports themselves are always on the host; by default as pods.mode says (macvlan).
    OpenShift's NFD has an API group of its own, and rules in its namespace.
    """
    api, namespace = (OPENSHIFT_API, OPENSHIFT_NAMESPACE) if openshift else (API, None)
    stay = plan.common.pod_mode == "macvlan" if ports_stay is None else ports_stay
    for group in groups(plan):
        for part, start in enumerate(range(0, len(group.nodes), NODES_EACH)):
            nodes = group.nodes[start : start + NODES_EACH]
            name = f"trackbed-{plan.common.fabric}-{group.index}-{part}"
            yield manifest(
                api, "NodeFeatureRule", name, namespace, spec={"rules": [_rule(name, group, nodes, stay=stay)]}
            )


def label(plan: Plan) -> tuple[str, str]:
    """The label that every node of the fabric gets: name and value."""
    return FABRIC_LABEL, plan.common.fabric


def _rule(name: str, group: Group, nodes: tuple[NodePlan, ...], *, stay: bool) -> dict[str, object]:
    hardware = _ports(group) if stay else _card(group)
    named = {"feature": "system.name", "matchExpressions": {"nodename": _in(*(node.name for node in nodes))}}
    return {"name": name, "labels": group.selector, "matchFeatures": [named, *hardware]}


def _ports(group: Group) -> list[dict[str, object]]:
    """Every port by its name; a matcher holds if any device fits, so each port needs one of its own."""
    return [{"feature": "network.device", "matchExpressions": {"name": _in(port.netdev)}} for port in group.ports]


def _card(group: Group) -> list[dict[str, object]]:
    """The card by vendor and device id, where the Fabric tells them."""
    if group.nodes[0].nic is None:
        return []
    vendor, device = group.nodes[0].nic.split(":")
    return [{"feature": "pci.device", "matchExpressions": {"vendor": _in(vendor), "device": _in(device)}}]


def _in(*values: str) -> dict[str, object]:
    return {"op": "In", "value": list(values)}
