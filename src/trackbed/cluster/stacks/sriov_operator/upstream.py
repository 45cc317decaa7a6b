"""`sriov-operator`: the community's SR-IOV network operator gives each pod a VF of each rail.

The operator creates the VFs and offers those of each rail as a resource, a SriovNetwork (on InfiniBand a
SriovIBNetwork) moves one into the pod, and NV-IPAM or Whereabouts gives it an address. The chart contains none of
Multus, the reference CNI plugins and an IPAM, which networks require. Follows
github.com/k8snetworkplumbingwg/sriov-network-operator: the chart's values, the CRDs, doc/quickstart.md.
"""

from collections.abc import Iterator

from trackbed.cluster.stacks import pod_ipam, sriov
from trackbed.cluster.stacks.nv_ipam import DEALT_BLOCKS
from trackbed.cluster.stacks.rails import choose_resource_prefix
from trackbed.cluster.stacks.releases import choose_release
from trackbed.cluster.stacks.sriov_operator.flavours import PREFIX, build_operator_config, check_pkey
from trackbed.cluster.stacks.stack import Chart, Stack, Stage, Wait
from trackbed.cluster.stacks.traits import Share, Traits, count_multus_writes, share_always
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

COMPONENT = NAMESPACE = "sriov-network-operator"
POOL_NAMESPACE = "kube-system"
"""Namespace of NV-IPAM's upstream manifests; it reads pools of this namespace only."""
FIRST_VERSION_WITH_RDMA_MODE = (1, 5)
"""The operator's first release that sets the RDMA namespace mode, as (major, minor)."""


def _build_charts(plan: Plan) -> tuple[Chart, ...]:
    values = {
        "operator": {"resourcePrefix": choose_resource_prefix(plan, PREFIX)},
        "sriovOperatorConfig": {"deploy": False},
    }
    wait = Wait("deployment/sriov-network-operator", "condition=Available", NAMESPACE)
    return (Chart(COMPONENT, NAMESPACE, values, (wait,)), *pod_ipam.build_charts(plan))


def _build_stages(plan: Plan) -> Iterator[Stage]:
    knows_mode = choose_release(plan, COMPONENT).number >= FIRST_VERSION_WITH_RDMA_MODE
    pool_config = sriov.build_pool_config(plan, NAMESPACE, names_rdma_mode=knows_mode)
    yield Stage("operator", (pool_config, build_operator_config(plan, NAMESPACE, webhooks=False)))
    yield from sriov.build_stages(plan, NAMESPACE, POOL_NAMESPACE, PREFIX)


def _find_refusals(plan: Plan) -> Iterator[Problem]:
    yield from sriov.find_refusals(plan, POOL_NAMESPACE)
    yield from check_pkey(plan)


_RAN = (
    "2026-11-29, on emulated servers by its own charts and programs: SR-IOV operator 1.6.0, device plugin 3.11.0, "
    "sriov-cni 2.10.0, Whereabouts 0.9.4, Multus 4.3.0; RDMA (mode shared) on 8 of 8 rails between pods; after them "
    "all VFs were back, at times one under another name"
)
STACK = Stack(
    name="sriov-operator",
    title="The community's SR-IOV operator gives each pod a VF of each rail; NV-IPAM or Whereabouts addresses it",
    traits=Traits(
        share_always(Share.VF),
        "released",
        "project of the Kubernetes Network Plumbing Working Group",
        count_multus_writes,
        operators=("Multus", "NV-IPAM or Whereabouts", "Node Feature Discovery"),
        ran=_RAN,
    ),
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
        DEALT_BLOCKS,
    ),
    charts=_build_charts,
    stages=_build_stages,
    access=lambda plan: sriov.build_access(plan, PREFIX),
    refusals=_find_refusals,
    warnings=lambda plan: sriov.find_warnings(plan, "sriov-operator", COMPONENT),
)
