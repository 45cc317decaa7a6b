"""What the stacks with networks beside the primary one have in common: Multus, the IPAM, and their charts."""

from __future__ import annotations

from typing import Any

from trackbed.cluster.stacks import pod_ipam
from trackbed.cluster.stacks.groups import selector
from trackbed.cluster.stacks.network_operator.policy import COMPONENT, image, multus, nic_cluster_policy, operator_chart
from trackbed.cluster.stacks.objects import Manifest
from trackbed.cluster.stacks.rails import prefix
from trackbed.cluster.stacks.releases import release
from trackbed.cluster.stacks.stack import Chart
from trackbed.fabric.plan.plan import Plan

SRIOV_PREFIX = "nvidia.com"
"""Resource prefix of the SR-IOV operator as the Network Operator's chart installs it."""


def policy(plan: Plan, networks: dict[str, Any] | None = None, **sections: dict[str, Any]) -> Manifest:
    """The NicClusterPolicy with Multus, the chosen IPAM, and a stack's own sections; `networks` go beside Multus."""
    if pod_ipam.nv_ipam_chosen(plan):
        sections["nvIpam"] = image(plan, "nv-ipam") | {"enableWebhook": False}
    return nic_cluster_policy(plan, **sections, secondaryNetwork=multus(plan) | (networks or {}))


def charts(plan: Plan) -> tuple[Chart, ...]:
    """The operator alone, and Whereabouts where it is chosen."""
    return (*operator_chart(plan), *pod_ipam.charts(plan))


def sriov_charts(plan: Plan) -> tuple[Chart, ...]:
    """The operator with the SR-IOV operator inside, on the fabric's nodes; the chart names no rdma CNI by itself."""
    values: dict[str, Any] = {
        "operator": {"resourcePrefix": prefix(plan, SRIOV_PREFIX)},
        "sriovOperatorConfig": {"deploy": True, "configDaemonNodeSelector": selector(plan)},
    }
    if plan.common.rdma_mode == "exclusive":
        values["images"] = {"rdmaCni": release(plan, COMPONENT).images["rdma-cni"]}
    inside = {"sriovNetworkOperator": {"enabled": True}, "sriov-network-operator": values}
    return (*operator_chart(plan, **inside), *pod_ipam.charts(plan))
