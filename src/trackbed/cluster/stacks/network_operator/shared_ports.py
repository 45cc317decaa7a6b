"""Pods that share ports: one resource a rail for many pods, an interface of each pod's own on top of the port.

The RDMA shared device plugin hands out the port's RDMA device, which stays in the host's namespace; in namespace mode
exclusive the plugin ends at its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from trackbed.cluster.stacks import pod_ipam
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.network_operator.policy import NAMESPACE, READY, shared_device_plugin
from trackbed.cluster.stacks.network_operator.secondary import policy
from trackbed.cluster.stacks.objects import Manifest
from trackbed.cluster.stacks.rails import networks, port_hcas, prefix, resources, short_resource
from trackbed.cluster.stacks.stack import Stage
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, RailPlan

PREFIX = "rdma"
"""Resource prefix of the RDMA shared device plugin."""
MAX_PODS = 63
"""Pods that may hold one port at once, as NVIDIA's guides have it."""


def stages(
    plan: Plan, network: Callable[[Plan, RailPlan], Manifest], beside: dict[str, Any] | None = None
) -> Iterator[Stage]:
    """Device plugin, pools, and a network a rail; `beside` is what its CNI needs in the NicClusterPolicy."""
    devices = shared_device_plugin(plan, _devices(plan))
    yield Stage("operator", (policy(plan, beside, rdmaSharedDevicePlugin=devices),), (READY,))
    yield from pod_ipam.pool_stages(plan, NAMESPACE)
    yield Stage("networks", (network(plan, rail) for rail in plan.common.rails))


def access(plan: Plan) -> Access:
    """Networks, a share of each port, and the ports' own RDMA devices."""
    return Access(networks=networks(plan), resources=resources(plan, PREFIX), hcas=port_hcas(plan))


def master(plan: Plan, rail: RailPlan) -> str:
    """The name of a rail's port, the same on all nodes (`unlike_names` has refused other plans)."""
    return next((port.netdev for node in plan.nodes for port in node.ports if port.rail == rail.rail), rail.netdev)


def refusals(plan: Plan) -> Iterator[Problem]:
    """Why pods cannot share the ports' RDMA devices."""
    if plan.common.rdma_mode != "shared":
        message = (
            "pods share the port's RDMA device, and the RDMA namespace mode exclusive hides it from them: write "
            "rdma.namespaceMode shared"
        )
        yield Problem("stack-rdma-mode", message, ("spec", "rdma", "namespaceMode"))


def _devices(plan: Plan) -> dict[str, Any]:
    """The plugin's resources: one a rail, found by the port's name, for as many pods as planned."""
    pods = min((own.pods_count for own in plan.nodes[0].ports[0].addresses), default=0)
    return {
        "configList": [
            {
                "resourcePrefix": prefix(plan, PREFIX),
                "resourceName": short_resource(rail),
                "rdmaHcaMax": min(pods, MAX_PODS) or MAX_PODS,
                "selectors": {"ifNames": [master(plan, rail)]},
            }
            for rail in plan.common.rails
        ]
    }
