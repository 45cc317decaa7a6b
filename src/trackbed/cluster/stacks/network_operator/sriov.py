"""`network-operator-sriov`: the SR-IOV operator in NVIDIA's Network Operator gives each pod a VF of each rail.

The operator creates the VFs and offers those of each rail as a resource, a SriovNetwork moves one into the pod, and
NV-IPAM or Whereabouts gives it an address. A SriovNetworkPoolConfig allows several nodes to be drained at once. Follows
the Network Operator's deployment guide, "SR-IOV network with RDMA" and "RDMA exclusive mode".
"""

from collections.abc import Iterator

from trackbed.cluster.stacks import sriov
from trackbed.cluster.stacks.link_type import change_link_type, check_link_type
from trackbed.cluster.stacks.network_operator.policy import COMPONENT, NAMESPACE, POLICY_READY
from trackbed.cluster.stacks.network_operator.secondary import SRIOV_PREFIX, build_policy, build_sriov_charts
from trackbed.cluster.stacks.nv_ipam import DEALT_BLOCKS
from trackbed.cluster.stacks.stack import Stack, Stage
from trackbed.cluster.stacks.traits import Share, Traits, count_multus_writes, share_always
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

_RAN = (
    "2026-11-29, on emulated servers by its own charts and programs: Network Operator 26.4.1, SR-IOV operator 1.6.0, "
    "device plugin 3.11.0, Multus 4.3.0, sriov-cni 2.10.0; RDMA on 8 of 8 rails between pods, nothing left after them"
)


def _build_stages(plan: Plan) -> Iterator[Stage]:
    yield sriov.build_mode_stage(plan, NAMESPACE)
    yield Stage("operator", (build_policy(plan),), (POLICY_READY,))
    yield from sriov.build_stages(plan, NAMESPACE, NAMESPACE, SRIOV_PREFIX)


def _find_refusals(plan: Plan) -> Iterator[Problem]:
    message = "this stack is for Ethernet, and linkType is infiniband: take network-operator-ib-sriov"
    yield from check_link_type(plan, "ethernet", message)
    plan = change_link_type(plan, "ethernet")
    yield from sriov.find_refusals(plan, NAMESPACE)


STACK = Stack(
    name="network-operator-sriov",
    title="Network Operator gives each pod a VF of each rail (SR-IOV); NV-IPAM or Whereabouts gives it an address",
    traits=Traits(share_always(Share.VF), "released", "NVIDIA's product", count_multus_writes, ran=_RAN),
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
        DEALT_BLOCKS,
    ),
    charts=build_sriov_charts,
    stages=_build_stages,
    access=lambda plan: sriov.build_access(plan, SRIOV_PREFIX),
    refusals=_find_refusals,
    warnings=lambda plan: sriov.find_warnings(plan, "network-operator-sriov", COMPONENT),
    deploys_driver=True,
)
