"""`network-operator-hostdevice`: the port itself goes into the pod; the routed /31 design of Spectrum-X.

The SR-IOV device plugin counts each rail's port as one resource, a HostDeviceNetwork moves it into the pod, and NV-IPAM
gives it the address that the leaf on its other end expects. One pod a node holds a rail.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.stacks import nv_ipam
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.groups import Group, groups
from trackbed.cluster.stacks.network_operator.policy import (
    COMPONENT,
    NAMESPACE,
    READY,
    device_plugin,
    image,
    multus,
    nic_cluster_policy,
    operator_chart,
)
from trackbed.cluster.stacks.objects import Manifest, json_text, manifest
from trackbed.cluster.stacks.pci import pci_address
from trackbed.cluster.stacks.rails import networks, port_hcas, prefix, resource, resources, short_resource
from trackbed.cluster.stacks.releases import release
from trackbed.cluster.stacks.stack import Stack, Stage
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, PortPlan, RailPlan

PREFIX = "nvidia.com"
"""Resource prefix that HostDeviceNetwork puts before every resource name."""


NODE_POLICY_SINCE = (26, 4)
"""The operator's first release with NicNodePolicy."""


def _stages(plan: Plan) -> Iterator[Stage]:
    yield Stage("operator", tuple(_policies(plan)), (READY,))
    yield Stage("pools", nv_ipam.pools(plan, NAMESPACE), nv_ipam.allocated(plan, NAMESPACE))
    yield Stage("networks", (_network(plan, rail) for rail in plan.common.rails))


def _policies(plan: Plan) -> Iterator[Manifest]:
    found = groups(plan)
    sections = {"nvIpam": image(plan, "nv-ipam") | {"enableWebhook": False}, "secondaryNetwork": multus(plan)}
    if len(found) == 1:
        yield nic_cluster_policy(
            plan, sriovDevicePlugin=device_plugin(plan, _resource_list(plan, found[0])), **sections
        )
        return
    yield nic_cluster_policy(plan, **sections)
    for group in found:
        yield _node_policy(plan, group)


def _node_policy(plan: Plan, group: Group) -> Manifest:
    """A group's own resource list: one address may be rail 0 here and rail 1 there."""
    spec = {"sriovDevicePlugin": device_plugin(plan, _resource_list(plan, group)), "nodeSelector": group.selector}
    return manifest("mellanox.com/v1alpha1", "NicNodePolicy", f"rails-{group.index}", spec=spec)


def _resource_list(plan: Plan, group: Group) -> dict[str, Any]:
    """The device plugin's resources: each rail's port by PCI address, or by name where the Fabric has none."""
    rails = plan.common.rails
    return {
        "resourceList": [
            {
                "resourcePrefix": prefix(plan, PREFIX),
                "resourceName": short_resource(rails[port.rail]),
                "selectors": {
                    "isRdma": True,
                    **_selector(port),
                },
            }
            for port in group.ports
        ]
    }


def _selector(port: PortPlan) -> dict[str, Any]:
    address = pci_address(port)
    return {"pciAddresses": [address]} if address else {"pfNames": [port.netdev]}


def _network(plan: Plan, rail: RailPlan) -> Manifest:
    spec = {
        "networkNamespace": plan.kubernetes.namespace,
        "resourceName": resource(rail, PREFIX),
        "ipam": json_text(nv_ipam.ipam(plan, rail)),
    }
    return manifest("mellanox.com/v1alpha1", "HostDeviceNetwork", rail.network, spec=spec)


def _access(plan: Plan) -> Access:
    return Access(networks=networks(plan), resources=resources(plan, PREFIX), hcas=port_hcas(plan))


def _refusals(plan: Plan) -> Iterator[Problem]:
    if plan.common.scheme != "point-to-point":
        message = (
            f"scheme {plan.common.scheme} is for ports that pods share, this stack hands the ports themselves to pods; "
            "write scheme point-to-point, or take network-operator-sriov or network-operator-macvlan"
        )
        yield Problem("stack-scheme", message, ("spec", "addressing", "scheme"))
        return
    if plan.common.link_type != "ethernet":
        yield Problem(
            "stack-link-type", "this stack is for Ethernet; see network-operator-ib-sriov", ("spec", "linkType")
        )
    operator = release(plan, COMPONENT)
    if len(groups(plan)) > 1 and operator.number < NODE_POLICY_SINCE:
        message = (
            f"{COMPONENT} {operator.version} has one resource list for all nodes, and these nodes have their ports at "
            "different addresses; take v26.4.0 or newer, which has NicNodePolicy"
        )
        yield Problem("stack-version", message, ("spec", "kubernetes", "versions"))
    yield from nv_ipam.refusals(plan, NAMESPACE)


STACK = Stack(
    name="network-operator-hostdevice",
    title="Network Operator moves the ports themselves into pods; NV-IPAM gives each its /31 of the routed fabric",
    needs=("NVIDIA Network Operator", "scheme point-to-point", "RDMA namespace mode exclusive"),
    cannot=("more than one pod a node on a rail", "InfiniBand"),
    charts=operator_chart,
    stages=_stages,
    access=_access,
    refusals=_refusals,
    ports_on_host=False,
)
