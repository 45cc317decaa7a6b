"""`network-operator-sriov`: the SR-IOV operator inside NVIDIA's Network Operator gives each pod a VF of each rail.

The operator makes the VFs and counts each rail's as one resource, a SriovNetwork moves one into the pod, NV-IPAM or
Whereabouts gives it an address beside the port's. Without the pool configuration nodes would be drained one by one.
Follows the Network Operator's deployment guide, "SR-IOV network with RDMA" and "RDMA exclusive mode".
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.cluster.stacks import sriov
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.network_operator.policy import NAMESPACE, READY
from trackbed.cluster.stacks.network_operator.secondary import SRIOV_PREFIX, policy, sriov_charts
from trackbed.cluster.stacks.stack import Stack, Stage
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan


def _stages(plan: Plan) -> Iterator[Stage]:
    yield Stage("operator", (policy(plan),), (READY,))
    yield from sriov.stages(plan, NAMESPACE, NAMESPACE, SRIOV_PREFIX)


def _access(plan: Plan) -> Access:
    return sriov.access(plan, SRIOV_PREFIX)


def _refusals(plan: Plan) -> Iterator[Problem]:
    if plan.common.link_type != "ethernet":
        message = "this stack is for Ethernet, and linkType is infiniband: take network-operator-ib-sriov"
        yield Problem("stack-link-type", message, ("spec", "linkType"))
        return
    yield from sriov.refusals(plan, NAMESPACE)


STACK = Stack(
    name="network-operator-sriov",
    title="Network Operator gives each pod a VF of each rail (SR-IOV); NV-IPAM or Whereabouts gives it an address",
    needs=(
        "NVIDIA Network Operator",
        "vfs.count of 1 to 128, SR-IOV enabled in firmware and BIOS",
        "scheme shared-subnet or node-subnet",
        "nodes that may be drained and rebooted, a tenth of them at once",
    ),
    cannot=(
        "InfiniBand (take network-operator-ib-sriov)",
        "scheme point-to-point: a /31 has no address for a VF",
        "names of RDMA devices that are known before the pod starts",
    ),
    charts=sriov_charts,
    stages=_stages,
    access=_access,
    refusals=_refusals,
)
