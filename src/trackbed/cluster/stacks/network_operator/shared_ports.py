"""Ports shared by pods: a resource of each rail for many pods, and in each pod an interface on top of the port.

The RDMA shared device plugin gives pods the port's RDMA device, which stays in the host's namespace. The plugin exits
at startup if the RDMA namespace mode is exclusive.
"""

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.stacks import pod_ipam
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.network_operator.policy import NAMESPACE, POLICY_READY, build_shared_device_plugin_section
from trackbed.cluster.stacks.network_operator.secondary import build_policy
from trackbed.cluster.stacks.objects import Manifest, build_manifest, drop_none
from trackbed.cluster.stacks.port_names import check_port_names, find_port_name
from trackbed.cluster.stacks.rails import (
    build_networks,
    build_resources,
    choose_resource_prefix,
    get_short_resource_name,
    list_port_hcas,
)
from trackbed.cluster.stacks.stack import Stage
from trackbed.cluster.stacks.traits import Share
from trackbed.cluster.stacks.traits import count_pods as count_shared_pods
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, RailPlan

PREFIX = "rdma"
"""Resource prefix of the RDMA shared device plugin."""
MAX_PODS_PER_PORT = 63
"""Largest number of pods that share a port, as in NVIDIA's guides."""


def build_stages(
    plan: Plan, network_kind: str, cni_plugins: dict[str, Any] | None = None, **network_fields: str | int
) -> Iterator[Stage]:
    """Yield the stages for the device plugin, the address pools and the networks.

    `network_kind` is the kind of the network objects, `network_fields` are the fields that only this kind has.
    `cni_plugins` are sections of CNI plugins that the NicClusterPolicy must install.
    """
    devices = build_shared_device_plugin_section(plan, _build_plugin_config(plan))
    yield Stage("operator", (build_policy(plan, cni_plugins, rdmaSharedDevicePlugin=devices),), (POLICY_READY,))
    yield from pod_ipam.build_pool_stages(plan, NAMESPACE)
    yield Stage("networks", (_build_network(plan, rail, network_kind, network_fields) for rail in plan.common.rails))


def build_access(plan: Plan) -> Access:
    """Return the access of pods to shared ports: networks, resources, and the ports' RDMA devices."""
    return Access(networks=build_networks(plan), resources=build_resources(plan, PREFIX), hcas=list_port_hcas(plan))


def count_pods(plan: Plan) -> int | None:
    """Return the pods of a node that fit on its ports."""
    return count_shared_pods(plan, Share.SHARED, max_shared=MAX_PODS_PER_PORT)


def find_refusals(plan: Plan, network_kind: str) -> Iterator[Problem]:
    """Yield a problem if ports cannot be shared; `network_kind` is the kind of the networks, with its article."""
    yield from check_port_names(plan, network_kind)
    if plan.common.rdma_mode != "shared":
        yield Problem(
            "stack-rdma-mode",
            "pods share the port's RDMA device, and the RDMA namespace mode exclusive hides it from them: write "
            "rdma.namespaceMode shared",
            ("spec", "rdma", "namespaceMode"),
        )


def _build_network(plan: Plan, rail: RailPlan, network_kind: str, network_fields: dict[str, str | int]) -> Manifest:
    spec = drop_none(
        networkNamespace=plan.kubernetes.namespace,
        master=find_port_name(plan, rail),
        **network_fields,
        ipam=pod_ipam.render_ipam(plan, rail),
    )
    return build_manifest("mellanox.com/v1alpha1", network_kind, rail.network, spec=spec)


def _build_plugin_config(plan: Plan) -> dict[str, Any]:
    """Return the device plugin's configuration: a resource for each rail, which as many pods share as are planned."""
    pods = min((block.pods_count for block in plan.nodes[0].ports[0].addresses), default=0)
    return {
        "configList": [
            {
                "resourcePrefix": choose_resource_prefix(plan, PREFIX),
                "resourceName": get_short_resource_name(rail),
                "rdmaHcaMax": min(pods, MAX_PODS_PER_PORT) or MAX_PODS_PER_PORT,
                "selectors": {"ifNames": [find_port_name(plan, rail)]},
            }
            for rail in plan.common.rails
        ]
    }
