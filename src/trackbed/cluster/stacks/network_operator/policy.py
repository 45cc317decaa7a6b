"""NicClusterPolicy (mellanox.com/v1alpha1): what the Network Operator deploys, images from the release catalogue."""

from __future__ import annotations

from typing import Any

from trackbed.cluster.stacks.groups import node_selector
from trackbed.cluster.stacks.objects import Manifest, json_text, manifest
from trackbed.cluster.stacks.releases import release
from trackbed.cluster.stacks.stack import Chart, Wait
from trackbed.fabric.plan.plan import Plan

COMPONENT = "nvidia-network-operator"
NAMESPACE = "nvidia-network-operator"
"""Where the operator and all it deploys live; NV-IPAM reads pools of this namespace only."""

READY = Wait("nicclusterpolicy/nic-cluster-policy", "jsonpath={.status.state}=ready", timeout_seconds=1800)
"""The operator has deployed all sections; with a driver container this takes many minutes a node."""


def image(plan: Plan, name: str) -> dict[str, str]:
    """The three fields by which every section names its image."""
    found = release(plan, COMPONENT).image(name)
    return {"image": found.image, "repository": found.repository, "version": found.version}


def nic_cluster_policy(plan: Plan, **sections: dict[str, Any]) -> Manifest:
    """The one NicClusterPolicy of a cluster (the operator accepts no other name), on the fabric's nodes only."""
    spec = {**_driver(plan), **sections, "nodeAffinity": _affinity(plan)}
    return manifest("mellanox.com/v1alpha1", "NicClusterPolicy", "nic-cluster-policy", spec=spec)


def multus(plan: Plan) -> dict[str, Any]:
    """Multus and the reference CNI plugins."""
    return {"cniPlugins": image(plan, "cni-plugins"), "multus": image(plan, "multus")}


def device_plugin(plan: Plan, config: object) -> dict[str, Any]:
    """The SR-IOV device plugin with its resource list."""
    return image(plan, "sriov-device-plugin") | {"config": json_text(config)}


def shared_device_plugin(plan: Plan, config: object) -> dict[str, Any]:
    """The RDMA shared device plugin with its resource list."""
    return image(plan, "rdma-shared-device-plugin") | {"config": json_text(config)}


def _driver(plan: Plan) -> dict[str, Any]:
    """The driver container, where the Fabric asks for it: one node at a time, pods drained, safe load."""
    if plan.kubernetes.driver == "host":
        return {}
    upgrade = {
        "autoUpgrade": True,
        "maxParallelUpgrades": 1,
        "safeLoad": True,
        "drain": {"enable": True, "force": False, "timeoutSeconds": 300, "deleteEmptyDir": True},
    }
    return {"ofedDriver": image(plan, "doca-driver") | {"upgradePolicy": upgrade}}


def _affinity(plan: Plan) -> dict[str, Any]:
    return {"requiredDuringSchedulingIgnoredDuringExecution": node_selector(plan)}


def operator_chart(_: Plan, **values: Any) -> tuple[Chart, ...]:  # noqa: ANN401 - Helm values hold anything
    """The operator's Helm release; it creates no NicClusterPolicy itself since 24.10."""
    until = (Wait("deployment/network-operator", "condition=Available", NAMESPACE),)
    return (Chart(COMPONENT, NAMESPACE, {"nfd": {"enabled": True}, **values}, until),)
