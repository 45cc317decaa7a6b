"""NicClusterPolicy (mellanox.com/v1alpha1): the components that the Network Operator deploys, and their images."""

from typing import Any

from trackbed.cluster.stacks.groups import build_node_selector
from trackbed.cluster.stacks.objects import Manifest, build_manifest, to_json_text
from trackbed.cluster.stacks.releases import choose_release
from trackbed.cluster.stacks.stack import Chart, Wait
from trackbed.fabric.plan.plan import Plan

COMPONENT = "nvidia-network-operator"
NAMESPACE = "nvidia-network-operator"
"""Namespace of the operator and of the components that it deploys; NV-IPAM reads pools of this namespace only."""

POLICY_READY = Wait("nicclusterpolicy/nic-cluster-policy", "jsonpath={.status.state}=ready", timeout_seconds=1800)
"""Wait until the operator has deployed all components; driver containers take many minutes on each node."""


def build_image_fields(plan: Plan, image_name: str) -> dict[str, str]:
    """Return image, repository and version of an image in the release catalogue, as fields of a policy's section."""
    release_image = choose_release(plan, COMPONENT).get_image(image_name)
    return {"image": release_image.image, "repository": release_image.repository, "version": release_image.version}


def build_nic_cluster_policy(plan: Plan, **sections: dict[str, Any]) -> Manifest:
    """Return the NicClusterPolicy for the fabric's nodes; the operator accepts only the name nic-cluster-policy."""
    spec = {**_build_driver_section(plan), **sections, "nodeAffinity": _build_node_affinity(plan)}
    return build_manifest("mellanox.com/v1alpha1", "NicClusterPolicy", "nic-cluster-policy", spec=spec)


def build_multus_section(plan: Plan) -> dict[str, Any]:
    """Return the policy's section for Multus and the reference CNI plugins."""
    return {"cniPlugins": build_image_fields(plan, "cni-plugins"), "multus": build_image_fields(plan, "multus")}


def build_nv_ipam_section(plan: Plan) -> dict[str, Any]:
    """Return the policy's section for NV-IPAM; its webhook would need certificates."""
    return build_image_fields(plan, "nv-ipam") | {"enableWebhook": False}


def build_sriov_device_plugin_section(plan: Plan, resource_list: object) -> dict[str, Any]:
    """Return the policy's section for the SR-IOV device plugin."""
    return build_image_fields(plan, "sriov-device-plugin") | {"config": to_json_text(resource_list)}


def build_shared_device_plugin_section(plan: Plan, resource_list: object) -> dict[str, Any]:
    """Return the policy's section for the RDMA shared device plugin."""
    return build_image_fields(plan, "rdma-shared-device-plugin") | {"config": to_json_text(resource_list)}


def _build_driver_section(plan: Plan) -> dict[str, Any]:
    """Return the policy's section for the driver container; empty if the hosts have the driver.

    The driver is updated on one node at a time, after a drain.
    """
    if plan.kubernetes.driver == "host":
        return {}
    upgrade = {
        "autoUpgrade": True,
        "maxParallelUpgrades": 1,
        "safeLoad": True,
        "drain": {"enable": True, "force": False, "timeoutSeconds": 300, "deleteEmptyDir": True},
    }
    return {"ofedDriver": build_image_fields(plan, "doca-driver") | {"upgradePolicy": upgrade}}


def _build_node_affinity(plan: Plan) -> dict[str, Any]:
    return {"requiredDuringSchedulingIgnoredDuringExecution": build_node_selector(plan)}


def build_operator_chart(_: Plan, **values: Any) -> tuple[Chart, ...]:  # noqa: ANN401 - Helm values hold anything
    """Return the chart of the Network Operator, which since 24.10 creates no NicClusterPolicy; `values` are added."""
    until = (Wait("deployment/network-operator", "condition=Available", NAMESPACE),)
    return (Chart(COMPONENT, NAMESPACE, {"nfd": {"enabled": True}, **values}, until),)
