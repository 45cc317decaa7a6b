"""`network-operator-hostdevice`: the port itself moves into the pod; the routed /31 design of Spectrum-X.

The SR-IOV device plugin offers each rail's port as a resource, CNI plugin host-device moves it into the pod, and
NV-IPAM gives it the address that the leaf switch expects. A rail can be used by only one pod of a node.

    RDMA mode shared      a HostDeviceNetwork; the port's RDMA device stays visible in all namespaces
    RDMA mode exclusive   a NetworkAttachmentDefinition of host-device and rdma, which moves the RDMA device

With a resource prefix of the Fabric's own, a NetworkAttachmentDefinition takes the place of the HostDeviceNetwork, as
the operator puts nvidia.com/ before any other name (`resourceNamePrefix` of pkg/state/state_hostdevice_network.go).

The network of exclusive mode is no HostDeviceNetwork, since up to v26.4.1 the operator renders one as host-device alone
(manifests/state-hostdevice-network), and the pod would get the port without its RDMA device. Its field `metaPlugins`
(commit d278cf75) is in no release. The operator does not install plugin rdma either.
"""

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.stacks import nv_ipam
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.groups import HardwareGroup, get_node_labels, group_nodes
from trackbed.cluster.stacks.network_operator import cni_installer
from trackbed.cluster.stacks.network_operator.policy import (
    COMPONENT,
    NAMESPACE,
    POLICY_READY,
    build_multus_section,
    build_nic_cluster_policy,
    build_nv_ipam_section,
    build_operator_chart,
    build_sriov_device_plugin_section,
)
from trackbed.cluster.stacks.objects import Manifest, build_manifest, build_network_attachment, to_json_text
from trackbed.cluster.stacks.pci import find_pci_address
from trackbed.cluster.stacks.rails import (
    build_networks,
    build_resources,
    choose_resource_prefix,
    get_resource_name,
    get_short_resource_name,
    list_port_hcas,
)
from trackbed.cluster.stacks.releases import choose_release
from trackbed.cluster.stacks.stack import Stack, Stage, Wait
from trackbed.cluster.stacks.traits import Share, Traits, count_multus_writes, share_always
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, PortPlan, RailPlan

PREFIX = "nvidia.com"
"""Prefix that the operator adds to the resource names of HostDeviceNetworks."""

FIRST_VERSION_WITH_NODE_POLICY = (26, 4)
"""The operator's first release with NicNodePolicy, as (major, minor)."""


def _build_stages(plan: Plan) -> Iterator[Stage]:
    yield Stage("operator", tuple(_build_policies(plan)), (POLICY_READY, *_build_node_policy_waits(plan)))
    if _moves_rdma_devices(plan):
        plugins = cni_installer.build_daemon_set(plan, NAMESPACE, ["rdma-cni"])
        yield Stage("CNI plugins", (plugins,), (cni_installer.build_wait(NAMESPACE),))
    yield Stage("pools", nv_ipam.build_pools(plan, NAMESPACE), nv_ipam.build_pool_waits(plan, NAMESPACE))
    networks = (_build_network(plan, rail) for rail in plan.common.rails)
    yield Stage("networks", networks, tuple(_build_offer_waits(plan)))


def _build_policies(plan: Plan) -> Iterator[Manifest]:
    node_groups = group_nodes(plan)
    sections = {
        "nvIpam": build_nv_ipam_section(plan),
        "secondaryNetwork": build_multus_section(plan),
    }
    if len(node_groups) == 1:
        yield build_nic_cluster_policy(
            plan,
            sriovDevicePlugin=build_sriov_device_plugin_section(plan, _build_resource_list(plan, node_groups[0])),
            **sections,
        )
        return
    yield build_nic_cluster_policy(plan, **sections)
    for group in node_groups:
        yield _build_node_policy(plan, group)


def _build_node_policy_waits(plan: Plan) -> Iterator[Wait]:
    """Yield a wait for the device plugin of each group, whose NicNodePolicy has a status of its own."""
    groups = group_nodes(plan)
    for group in groups if len(groups) > 1 else ():
        yield Wait(
            f"nicnodepolicy/{_get_policy_name(group)}", POLICY_READY.condition, None, POLICY_READY.timeout_seconds
        )


def _build_offer_waits(plan: Plan) -> Iterator[Wait]:
    """Yield waits until labelled nodes offer the port of each rail, as a ready device plugin may offer none of them.

    They belong to the last stage, so that a node without its ports delays no other stage. A node without the label, as
    it is down, is not waited for. A rail that only some groups have is waited for in these.
    """
    groups = group_nodes(plan)
    for rail in plan.common.rails:
        members = [group for group in groups if any(port.rail == rail.rail for port in group.ports)]
        selections = (
            [get_node_labels(plan)] if len(members) == len(groups) else [group.node_labels for group in members]
        )
        path = get_resource_name(rail, PREFIX).replace(".", "\\.")
        for labels in selections:
            selector = ",".join(f"{key}={value}" for key, value in labels.items())
            yield Wait(f"nodes --selector={selector}", f"jsonpath={{.status.allocatable.{path}}}=1")


def _get_policy_name(group: HardwareGroup) -> str:
    return f"rails-{group.index}"


def _build_node_policy(plan: Plan, group: HardwareGroup) -> Manifest:
    """Return the NicNodePolicy with a group's resource list, as PCI addresses may be other rails in other groups."""
    spec = {
        "sriovDevicePlugin": build_sriov_device_plugin_section(plan, _build_resource_list(plan, group)),
        "nodeSelector": group.node_labels,
    }
    return build_manifest("mellanox.com/v1alpha1", "NicNodePolicy", _get_policy_name(group), spec=spec)


def _build_resource_list(plan: Plan, group: HardwareGroup) -> dict[str, Any]:
    """Return the device plugin's resource list: each rail's port by PCI address, or by name if that is unknown."""
    rails = plan.common.rails
    return {
        "resourceList": [
            {
                "resourcePrefix": choose_resource_prefix(plan, PREFIX),
                "resourceName": get_short_resource_name(rails[port.rail]),
                "selectors": {
                    "isRdma": True,
                    **_build_port_selector(port),
                },
            }
            for port in group.ports
        ]
    }


def _build_port_selector(port: PortPlan) -> dict[str, Any]:
    address = find_pci_address(port)
    return {"pciAddresses": [address]} if address else {"pfNames": [port.netdev]}


def _moves_rdma_devices(plan: Plan) -> bool:
    return plan.common.rdma_mode == "exclusive"


def _build_network(plan: Plan, rail: RailPlan) -> Manifest:
    if _moves_rdma_devices(plan) or choose_resource_prefix(plan, PREFIX) != PREFIX:
        return _build_attachment(plan, rail)
    spec = {
        "networkNamespace": plan.kubernetes.namespace,
        "resourceName": get_resource_name(rail, PREFIX),
        "ipam": to_json_text(nv_ipam.build_ipam(plan, rail)),
    }
    return build_manifest("mellanox.com/v1alpha1", "HostDeviceNetwork", rail.network, spec=spec)


def _build_attachment(plan: Plan, rail: RailPlan) -> Manifest:
    rdma = [{"type": "rdma"}] if _moves_rdma_devices(plan) else []
    plugins = [{"type": "host-device", "ipam": nv_ipam.build_ipam(plan, rail)}, *rdma]
    config = {"cniVersion": "1.0.0", "name": rail.network, "plugins": plugins}
    return build_network_attachment(rail.network, plan.kubernetes.namespace, config, get_resource_name(rail, PREFIX))


def _build_access(plan: Plan) -> Access:
    return Access(networks=build_networks(plan), resources=build_resources(plan, PREFIX), hcas=list_port_hcas(plan))


def _find_refusals(plan: Plan) -> Iterator[Problem]:
    if plan.common.scheme != "point-to-point":
        yield Problem(
            "stack-scheme",
            f"scheme {plan.common.scheme} is for ports that pods share, this stack hands the ports themselves to pods; "
            "write scheme point-to-point, or take network-operator-sriov or network-operator-macvlan",
            ("spec", "addressing", "scheme"),
        )
    if plan.common.link_type != "ethernet":
        yield Problem(
            "stack-link-type", "this stack is for Ethernet; see network-operator-ib-sriov", ("spec", "linkType")
        )
    operator = choose_release(plan, COMPONENT)
    if len(group_nodes(plan)) > 1 and operator.number < FIRST_VERSION_WITH_NODE_POLICY:
        yield Problem(
            "stack-version",
            f"{COMPONENT} {operator.version} has one resource list for all nodes, and these nodes have their ports at "
            "different addresses; take v26.4.0 or newer, which has NicNodePolicy",
            ("spec", "kubernetes", "versions"),
        )
    if plan.common.scheme == "point-to-point":
        yield from nv_ipam.find_refusals(plan, NAMESPACE)


_RAN = (
    "2026-11-29, on emulated servers by its own charts and programs: Network Operator 26.4.1, device plugin 3.11.0, "
    "Multus 4.3.0, host-device 1.9.1, NV-IPAM; RDMA (mode shared) on 8 of 8 rails between pods, nothing left "
    "after them"
)

STACK = Stack(
    name="network-operator-hostdevice",
    title="Network Operator moves the ports themselves into pods; NV-IPAM gives each its /31 of the routed fabric",
    traits=Traits(share_always(Share.PORT), "released", "NVIDIA's product", count_multus_writes, ran=_RAN),
    needs=("NVIDIA Network Operator", "scheme point-to-point"),
    cannot=("more than one pod a node on a rail", "InfiniBand", nv_ipam.FIXED_IPV6),
    charts=build_operator_chart,
    stages=_build_stages,
    access=_build_access,
    refusals=_find_refusals,
    ports_on_host=False,
    deploys_driver=True,
)
