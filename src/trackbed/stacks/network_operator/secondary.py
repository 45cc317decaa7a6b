"""What the stacks with networks beside the primary one have in common: Multus, the IPAM, and their charts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trackbed.plan.plan import Plan, RailPlan
from trackbed.spec.problems import Problem
from trackbed.stacks import pod_ipam
from trackbed.stacks.groups import selector
from trackbed.stacks.network_operator.policy import COMPONENT, image, multus, nic_cluster_policy, operator_chart
from trackbed.stacks.objects import Manifest
from trackbed.stacks.rails import prefix, short_resource
from trackbed.stacks.releases import release
from trackbed.stacks.stack import Chart

SRIOV_PREFIX = "nvidia.com"
"""Resource prefix of the SR-IOV operator as the Network Operator's chart installs it."""
SHARED_PREFIX = "rdma"
"""Resource prefix of the RDMA shared device plugin."""
MAX_SHARED_PODS = 63
"""Pods that may hold one port at once, as NVIDIA's guides have it."""


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


def shared_devices(plan: Plan) -> dict[str, Any]:
    """The RDMA shared device plugin's resources: one a rail, found by the port's name, for as many pods as planned."""
    pods = min((own.pods_count for own in plan.nodes[0].ports[0].addressed), default=0)
    return {
        "configList": [
            {
                "resourcePrefix": prefix(plan, SHARED_PREFIX),
                "resourceName": short_resource(rail),
                "rdmaHcaMax": min(pods, MAX_SHARED_PODS) or MAX_SHARED_PODS,
                "selectors": {"ifNames": [master(plan, rail)]},
            }
            for rail in plan.common.rails
        ]
    }


def master(plan: Plan, rail: RailPlan) -> str:
    """The name of a rail's port, the same on all nodes (`unlike_names` has refused other plans)."""
    return next((port.netdev for node in plan.nodes for port in node.ports if port.rail == rail.rail), rail.netdev)


def shared_refusals(plan: Plan) -> Iterator[Problem]:
    """Why pods cannot share the ports' RDMA devices."""
    if plan.common.rdma_mode != "shared":
        message = (
            "pods share the port's RDMA device, and the RDMA namespace mode exclusive hides it from them: write "
            "rdma.namespaceMode shared"
        )
        yield Problem("stack-rdma-mode", message, ("spec", "rdma", "namespaceMode"))
