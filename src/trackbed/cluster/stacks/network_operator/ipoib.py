"""`network-operator-ipoib`: pods share InfiniBand ports; each pod has its own IPoIB interface on every rail.

The RDMA shared device plugin offers each rail's port to many pods as one resource, an IPoIBNetwork adds a child of the
port's IPoIB interface to the pod, and NV-IPAM or Whereabouts gives it an address. The child has the MTU and the PKey of
its parent, so pods cannot have their own partitions. The plugin exits unless the RDMA namespace mode is shared.
Follows the Network Operator's deployment guide, "IP over InfiniBand network with RDMA shared device".
"""

from collections.abc import Iterator

from trackbed.cluster.stacks import pod_ipam
from trackbed.cluster.stacks.link_type import change_link_type, check_link_type
from trackbed.cluster.stacks.network_operator import shared_ports
from trackbed.cluster.stacks.network_operator.policy import NAMESPACE, build_image_fields
from trackbed.cluster.stacks.network_operator.secondary import build_charts
from trackbed.cluster.stacks.nv_ipam import DEALT_BLOCKS
from trackbed.cluster.stacks.stack import Stack, Stage
from trackbed.cluster.stacks.traits import Share, Traits, count_multus_writes, share_always
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan


def _build_stages(plan: Plan) -> Iterator[Stage]:
    return shared_ports.build_stages(plan, "IPoIBNetwork", {"ipoib": build_image_fields(plan, "ipoib-cni")})


def _find_refusals(plan: Plan) -> Iterator[Problem]:
    message = "IPoIB is for InfiniBand, and linkType is ethernet: take network-operator-macvlan"
    yield from check_link_type(plan, "infiniband", message)
    plan = change_link_type(plan, "infiniband")
    yield from shared_ports.find_refusals(plan, "an IPoIBNetwork")
    if plan.kubernetes.pkey is not None:
        yield Problem(
            "stack-pkey",
            "an IPoIBNetwork has its parent interface's partition and names no PKey: leave out kubernetes.pkey, or "
            "take network-operator-ib-sriov",
            ("spec", "kubernetes", "pkey"),
        )
    if not plan.common.has_shared_subnets:
        yield Problem(
            "stack-scheme",
            f"an InfiniBand rail is one IP subnet, and scheme is {plan.common.scheme}: write scheme shared-subnet, or "
            "take network-operator-ib-sriov where pods need no IP addresses",
            ("spec", "addressing", "scheme"),
        )
    else:
        yield from pod_ipam.find_refusals(plan, NAMESPACE)


STACK = Stack(
    name="network-operator-ipoib",
    title="Network Operator: pods share InfiniBand ports, each with an IPoIB interface on every rail",
    traits=Traits(
        share_always(Share.SHARED), "released", "NVIDIA's product", count_multus_writes, pods=shared_ports.count_pods
    ),
    needs=(
        "NVIDIA Network Operator",
        "linkType infiniband, scheme shared-subnet",
        "RDMA namespace mode shared",
        "the same port names on all nodes: names.netdev, or equal hardware",
    ),
    cannot=(
        "a PKey other than the port's: one partition a pod, the same on all rails",
        "RDMA devices or counters of a pod's own: the port's serve all pods",
        "an MTU that differs from the port's",
        "Ethernet (take network-operator-macvlan)",
        DEALT_BLOCKS,
    ),
    charts=build_charts,
    stages=_build_stages,
    access=shared_ports.build_access,
    refusals=_find_refusals,
    deploys_driver=True,
)
