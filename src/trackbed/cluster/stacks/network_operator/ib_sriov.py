"""`network-operator-ib-sriov`: each pod gets an InfiniBand VF of each rail, in its own partition where one is given.

The SR-IOV operator makes the VFs and counts them, a SriovIBNetwork moves one into the pod. A SriovIBNetwork has no
PKey: with one the network is a NetworkAttachmentDefinition of type ib-sriov, whose `pkey` ib-kubernetes reads; it gives
the VF a GUID and has UFM add that to the partition. Without that the VF would stay in the default partition, or out.
Follows the Network Operator's deployment guide, "SR-IOV InfiniBand with PKey", and github.com/Mellanox/ib-kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trackbed.cluster.stacks import pod_ipam, sriov
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.network_operator.policy import NAMESPACE, READY, image
from trackbed.cluster.stacks.network_operator.secondary import SRIOV_PREFIX, policy, sriov_charts
from trackbed.cluster.stacks.objects import Manifest, network_attachment
from trackbed.cluster.stacks.rails import resource
from trackbed.cluster.stacks.stack import Stack, Stage
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, RailPlan

UFM_SECRET = "ib-kubernetes-ufm-secret"  # noqa: S105 - the name of a Secret that the user makes, not its content
PKEY_BITS = 0x7FFF
"""The bits of a PKey that name the partition; ib-kubernetes takes no membership bit, UFM decides about that."""
GUIDS = ("02:00:00:00:00:00:00:00", "02:FF:FF:FF:FF:FF:FF:FF")
"""Locally administered GUIDs (IEEE EUI-64) that VFs get, the Network Operator's default."""


def _stages(plan: Plan) -> Iterator[Stage]:
    sections = {"ibKubernetes": _ib_kubernetes(plan)} if plan.kubernetes.pkey else {}
    yield Stage("operator", (policy(plan, **sections),), (READY,))
    for stage in sriov.stages(plan, NAMESPACE, NAMESPACE, SRIOV_PREFIX):
        yield replace(stage, objects=_partitioned(plan)) if _in_partition(plan, stage) else stage


def _in_partition(plan: Plan, stage: Stage) -> bool:
    return stage.name == "networks" and plan.kubernetes.pkey is not None


def _ib_kubernetes(plan: Plan) -> dict[str, Any]:
    first, last = GUIDS
    fields = {"pKeyGUIDPoolRangeStart": first, "pKeyGUIDPoolRangeEnd": last, "ufmSecret": UFM_SECRET}
    return image(plan, "ib-kubernetes") | fields


def _partitioned(plan: Plan) -> Iterator[Manifest]:
    for rail in plan.common.rails:
        config = _ib_sriov(plan, rail)
        yield network_attachment(rail.network, plan.kubernetes.namespace, config, resource(rail, SRIOV_PREFIX))


def _ib_sriov(plan: Plan, rail: RailPlan) -> dict[str, Any]:
    """The CNI configuration; the plugin moves the RDMA device itself, the rdma CNI must not follow it."""
    pkey, section = plan.kubernetes.pkey or 0, pod_ipam.section(plan, rail)
    return {
        "cniVersion": "1.0.0",
        "name": rail.network,
        "type": "ib-sriov",
        "pkey": f"{pkey & PKEY_BITS:#x}",
        "link_state": "enable",
        "rdmaIsolation": plan.common.rdma_mode == "exclusive",
        "ibKubernetesEnabled": True,
        "capabilities": {"infinibandGUID": True},
    } | ({"ipam": section} if section else {})


def _access(plan: Plan) -> Access:
    return sriov.access(plan, SRIOV_PREFIX)


def _refusals(plan: Plan) -> Iterator[Problem]:
    if plan.common.link_type != "infiniband":
        message = "this stack is for InfiniBand, and linkType is ethernet: take network-operator-sriov"
        yield Problem("stack-link-type", message, ("spec", "linkType"))
        return
    yield from sriov.refusals(plan, NAMESPACE)
    if plan.kubernetes.pkey is not None and plan.common.cross_rail == "routed":
        message = (
            "a network with a PKey has no source routing in the pod, so rails cannot be routed to each other: write "
            "routing.crossRail isolated, or leave out kubernetes.pkey"
        )
        yield Problem("stack-pkey", message, ("spec", "kubernetes", "pkey"))


STACK = Stack(
    name="network-operator-ib-sriov",
    title="Network Operator gives each pod an InfiniBand VF of each rail, in a partition (PKey) where one is given",
    needs=(
        "NVIDIA Network Operator",
        "linkType infiniband, vfs.count of 1 to 16; scheme none or shared-subnet",
        "a subnet manager that serves virtual ports (OpenSM: virt_enabled 2)",
        "with kubernetes.pkey: UFM, and x86 nodes for ib-kubernetes",
        (
            f"with kubernetes.pkey: the Secret {UFM_SECRET}, made from a file so that no password is seen in a command "
            "line: write UFM_USERNAME=, UFM_PASSWORD=, UFM_ADDRESS=, UFM_HTTP_SCHEMA=https and UFM_PORT=443 into "
            f"ufm.env (mode 0600), then kubectl -n {NAMESPACE} create secret generic {UFM_SECRET} "
            "--from-env-file=ufm.env"
        ),
    ),
    cannot=(
        "more than 16 VFs a port, or more than 128 PKeys a node",
        "Ethernet (take network-operator-sriov)",
        "scheme node-subnet and point-to-point: InfiniBand switches do not route IP",
        "names of RDMA devices that are known before the pod starts",
    ),
    charts=sriov_charts,
    stages=_stages,
    access=_access,
    refusals=_refusals,
)
