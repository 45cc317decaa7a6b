"""Policy and charts of the stacks with secondary networks, which need Multus and an IPAM."""

from typing import Any

from trackbed.cluster.stacks import pod_ipam
from trackbed.cluster.stacks.groups import get_node_labels
from trackbed.cluster.stacks.network_operator.policy import (
    build_multus_section,
    build_nic_cluster_policy,
    build_nv_ipam_section,
    build_operator_chart,
)
from trackbed.cluster.stacks.objects import Manifest
from trackbed.cluster.stacks.rails import choose_resource_prefix
from trackbed.cluster.stacks.stack import Chart
from trackbed.fabric.plan.plan import Plan

SRIOV_PREFIX = "nvidia.com"
"""Default resource prefix of the SR-IOV operator that the Network Operator's chart installs."""


def build_policy(plan: Plan, cni_plugins: dict[str, Any] | None = None, **sections: dict[str, Any]) -> Manifest:
    """Return the NicClusterPolicy with Multus, NV-IPAM if it is chosen, and further sections.

    `cni_plugins` are sections of CNI plugins to install together with Multus.
    """
    if pod_ipam.uses_nv_ipam(plan):
        sections["nvIpam"] = build_nv_ipam_section(plan)
    return build_nic_cluster_policy(plan, **sections, secondaryNetwork=build_multus_section(plan) | (cni_plugins or {}))


def build_charts(plan: Plan) -> tuple[Chart, ...]:
    """Return the charts of the Network Operator and of the chosen IPAM."""
    return (*build_operator_chart(plan), *pod_ipam.build_charts(plan))


def build_sriov_charts(plan: Plan) -> tuple[Chart, ...]:
    """Return the same charts with the SR-IOV operator.

    Helm adds the daemon's node selector to the chart's own, which waits for the NIC driver.
    """
    values: dict[str, Any] = {
        "operator": {"resourcePrefix": choose_resource_prefix(plan, SRIOV_PREFIX)},
        "sriovOperatorConfig": {"deploy": True, "configDaemonNodeSelector": get_node_labels(plan)},
    }
    chart_values = {"sriovNetworkOperator": {"enabled": True}, "sriov-network-operator": values}
    return (*build_operator_chart(plan, **chart_values), *pod_ipam.build_charts(plan))
