"""`network-operator-ib-sriov`: each pod gets an InfiniBand VF of each rail, in a partition if the Fabric has one.

The SR-IOV operator creates the VFs and offers them as resources, and a SriovIBNetwork moves one into the pod. As a
SriovIBNetwork has no PKey, the network of a partition is a NetworkAttachmentDefinition of type ib-sriov with `pkey`.
ib-kubernetes reads it, assigns a GUID to the VF, and requests UFM to add the GUID to the partition. Otherwise the VF
would be in the default partition or in none. Follows the Network Operator's deployment guide, "SR-IOV InfiniBand with
PKey", and github.com/Mellanox/ib-kubernetes.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trackbed.cluster.stacks import ib_kubernetes, pod_ipam, sriov
from trackbed.cluster.stacks.link_type import change_link_type, check_link_type
from trackbed.cluster.stacks.network_operator.policy import COMPONENT, NAMESPACE, POLICY_READY, build_image_fields
from trackbed.cluster.stacks.network_operator.secondary import SRIOV_PREFIX, build_policy, build_sriov_charts
from trackbed.cluster.stacks.nv_ipam import DEALT_BLOCKS
from trackbed.cluster.stacks.objects import Manifest, build_network_attachment
from trackbed.cluster.stacks.rails import get_resource_name
from trackbed.cluster.stacks.stack import Stack, Stage
from trackbed.cluster.stacks.traits import Share, Traits, count_multus_writes, share_always
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, RailPlan

VF_GUID_RANGE = ("02:00:00:00:00:00:00:00", "02:FF:FF:FF:FF:FF:FF:FF")
"""First and last GUID for VFs, locally administered (IEEE EUI-64); the Network Operator's default."""


def _build_stages(plan: Plan) -> Iterator[Stage]:
    sections = {"ibKubernetes": _build_ib_kubernetes_section(plan)} if plan.kubernetes.pkey else {}
    yield sriov.build_mode_stage(plan, NAMESPACE)
    yield Stage("operator", (build_policy(plan, **sections),), (POLICY_READY,))
    for stage in sriov.build_stages(plan, NAMESPACE, NAMESPACE, SRIOV_PREFIX):
        needs_pkey = stage.name == "networks" and plan.kubernetes.pkey is not None
        yield replace(stage, objects=_build_partition_networks(plan)) if needs_pkey else stage


def _build_ib_kubernetes_section(plan: Plan) -> dict[str, Any]:
    first, last = VF_GUID_RANGE
    fields = {"pKeyGUIDPoolRangeStart": first, "pKeyGUIDPoolRangeEnd": last, "ufmSecret": ib_kubernetes.UFM_SECRET}
    return build_image_fields(plan, "ib-kubernetes") | fields


def _build_partition_networks(plan: Plan) -> Iterator[Manifest]:
    for rail in plan.common.rails:
        config = _build_cni_config(plan, rail)
        yield build_network_attachment(
            rail.network, plan.kubernetes.namespace, config, get_resource_name(rail, SRIOV_PREFIX)
        )


def _build_cni_config(plan: Plan, rail: RailPlan) -> dict[str, Any]:
    """Return the CNI configuration of a rail; ib-sriov moves the RDMA device itself, so plugin rdma must not follow."""
    section = pod_ipam.build_ipam(plan, rail)
    return {
        "cniVersion": "1.0.0",
        "name": rail.network,
        "type": "ib-sriov",
        "pkey": ib_kubernetes.format_pkey(plan.kubernetes.pkey or 0),
        "link_state": "enable",
        "rdmaIsolation": plan.common.rdma_mode == "exclusive",
        "ibKubernetesEnabled": True,
        "capabilities": {"infinibandGUID": True},
    } | ({"ipam": section} if section else {})


def _find_refusals(plan: Plan) -> Iterator[Problem]:
    message = "this stack is for InfiniBand, and linkType is ethernet: take network-operator-sriov"
    yield from check_link_type(plan, "infiniband", message)
    plan = change_link_type(plan, "infiniband")
    yield from sriov.find_refusals(plan, NAMESPACE)
    if plan.kubernetes.pkey is not None and plan.common.cross_rail == "routed":
        yield Problem(
            "stack-pkey",
            "a network with a PKey has no source routing in the pod, so rails cannot be routed to each other: write "
            "routing.crossRail isolated, or leave out kubernetes.pkey",
            ("spec", "kubernetes", "pkey"),
        )


STACK = Stack(
    name="network-operator-ib-sriov",
    title="Network Operator gives each pod an InfiniBand VF of each rail, in a partition (PKey) where one is given",
    traits=Traits(share_always(Share.VF), "released", "NVIDIA's product", count_multus_writes),
    needs=(
        "NVIDIA Network Operator",
        "linkType infiniband, vfs.count of 1 to 16; scheme none or shared-subnet",
        "a subnet manager that serves virtual ports (OpenSM: virt_enabled 2)",
        "with kubernetes.pkey: UFM, and x86 nodes for ib-kubernetes",
        ib_kubernetes.describe_ufm_secret(NAMESPACE),
    ),
    cannot=(
        "more than 16 VFs a port, or more than 128 PKeys a node",
        "Ethernet (take network-operator-sriov)",
        "scheme node-subnet and point-to-point: InfiniBand switches do not route IP",
        "names of RDMA devices that are known before the pod starts",
        DEALT_BLOCKS,
    ),
    charts=build_sriov_charts,
    stages=_build_stages,
    access=lambda plan: sriov.build_access(plan, SRIOV_PREFIX),
    refusals=_find_refusals,
    warnings=lambda plan: sriov.find_warnings(plan, "network-operator-ib-sriov", COMPONENT),
    deploys_driver=True,
)
