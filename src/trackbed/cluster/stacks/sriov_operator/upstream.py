"""`sriov-operator`: the community's SR-IOV network operator gives each pod a VF of each rail.

The operator makes the VFs and counts each rail's as one resource, a SriovNetwork (on InfiniBand a SriovIBNetwork) moves
one into the pod, NV-IPAM or Whereabouts gives it an address. The chart brings neither Multus nor the reference plugins
nor an IPAM: without them a network is an object that nobody reads.
Follows github.com/k8snetworkplumbingwg/sriov-network-operator: the chart's values, the CRDs, doc/quickstart.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.cluster.stacks import pod_ipam, sriov
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.rails import prefix
from trackbed.cluster.stacks.sriov_operator.flavours import PREFIX, operator_config, refused_pkey
from trackbed.cluster.stacks.stack import Chart, Stack, Stage, Wait
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

COMPONENT = NAMESPACE = "sriov-network-operator"
POOLS = "kube-system"
"""Where NV-IPAM's own manifests put it; it reads pools of its namespace only."""


def _charts(plan: Plan) -> tuple[Chart, ...]:
    values = {"operator": {"resourcePrefix": prefix(plan, PREFIX)}, "sriovOperatorConfig": {"deploy": False}}
    until = Wait("deployment/sriov-network-operator", "condition=Available", NAMESPACE)
    return (Chart(COMPONENT, NAMESPACE, values, (until,)), *pod_ipam.charts(plan))


def _stages(plan: Plan) -> Iterator[Stage]:
    yield Stage("operator", (operator_config(plan, NAMESPACE, webhooks=False),))
    yield from sriov.stages(plan, NAMESPACE, POOLS, PREFIX)


def _access(plan: Plan) -> Access:
    return sriov.access(plan, PREFIX)


def _refusals(plan: Plan) -> Iterator[Problem]:
    yield from sriov.refusals(plan, POOLS)
    yield from refused_pkey(plan)


STACK = Stack(
    name="sriov-operator",
    title="The community's SR-IOV operator gives each pod a VF of each rail; NV-IPAM or Whereabouts addresses it",
    needs=(
        "Multus and the reference CNI plugins (tuning, sbr) on the nodes",
        "NV-IPAM in namespace kube-system, or kubernetes.ipam whereabouts, whose chart is installed",
        "Node Feature Discovery, for the label of the fabric's nodes",
        "vfs.count of 1 to 128 (InfiniBand: 16), SR-IOV enabled in firmware and BIOS",
        "nodes that may be drained and rebooted, a tenth of them at once",
    ),
    cannot=(
        "scheme point-to-point: a /31 has no address for a VF",
        "PKeys (take network-operator-ib-sriov)",
        "the NIC driver: it must be on the hosts",
        "names of RDMA devices that are known before the pod starts",
    ),
    charts=_charts,
    stages=_stages,
    access=_access,
    refusals=_refusals,
)
