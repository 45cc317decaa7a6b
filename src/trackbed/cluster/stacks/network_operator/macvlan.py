"""`network-operator-macvlan`: pods share ports; each pod has its own macvlan interface on every rail.

The RDMA shared device plugin offers each rail's port to many pods as one resource, a MacvlanNetwork adds an interface
on the port to the pod, and NV-IPAM or Whereabouts gives it an address. The RDMA device stays in the host's namespace
and serves all pods, so the RDMA namespace mode must be shared: in exclusive mode the plugin exits at startup. Follows
the Network Operator's deployment guide, "RDMA shared device plugin" and "Macvlan network".
"""

from collections.abc import Iterator

from trackbed.cluster.stacks import pod_ipam
from trackbed.cluster.stacks.link_type import change_link_type, check_link_type
from trackbed.cluster.stacks.network_operator import shared_ports
from trackbed.cluster.stacks.network_operator.policy import NAMESPACE
from trackbed.cluster.stacks.network_operator.secondary import build_charts
from trackbed.cluster.stacks.nv_ipam import DEALT_BLOCKS
from trackbed.cluster.stacks.stack import Stack, Stage
from trackbed.cluster.stacks.traits import Share, Traits, count_multus_writes, share_always
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan


def _build_stages(plan: Plan) -> Iterator[Stage]:
    # Only in mode bridge can pods on the same node reach each other on a rail.
    return shared_ports.build_stages(plan, "MacvlanNetwork", mode="bridge", mtu=plan.common.mtu_bytes)


def _find_refusals(plan: Plan) -> Iterator[Problem]:
    message = "InfiniBand has no macvlan, and linkType is infiniband: take network-operator-ipoib"
    yield from check_link_type(plan, "ethernet", message)
    plan = change_link_type(plan, "ethernet")
    yield from shared_ports.find_refusals(plan, "a MacvlanNetwork")
    if plan.common.scheme not in {"shared-subnet", "node-subnet"}:
        yield Problem(
            "stack-scheme",
            f"scheme {plan.common.scheme} leaves no address for an interface beside the port's: write scheme "
            "shared-subnet or node-subnet",
            ("spec", "addressing", "scheme"),
        )
    else:
        yield from pod_ipam.find_refusals(plan, NAMESPACE)


_RAN = (
    "2026-11-29, on emulated servers by its own chart and programs: Network Operator 26.4.1, shared RDMA device plugin "
    "1.5.3, Multus 4.3.0, macvlan 1.9.1, NV-IPAM; packets of RDMA's size on 8 of 8 rails between pods, no RDMA, as "
    "soft-RoCE cannot over macvlan; nothing left after them"
)

STACK = Stack(
    name="network-operator-macvlan",
    title="Network Operator: pods share ports, each with a macvlan interface on every rail; one RDMA device serves all",
    traits=Traits(
        share_always(Share.SHARED),
        "released",
        "NVIDIA's product",
        count_multus_writes,
        pods=shared_ports.count_pods,
        ran=_RAN,
    ),
    needs=(
        "NVIDIA Network Operator",
        "scheme shared-subnet or node-subnet",
        "RDMA namespace mode shared",
        "module ib_umad on the nodes, for the device plugin: pods.mode macvlan lets `trackbed apply` load it",
        "the same port names on all nodes: names.netdev, or equal hardware",
    ),
    cannot=(
        "RDMA devices or counters of a pod's own: the port's serve all pods",
        "source routing inside the pod: rails that are routed to each other share one routing table",
        "traffic between a pod and its own node on a rail (macvlan)",
        "InfiniBand (take network-operator-ipoib)",
        DEALT_BLOCKS,
    ),
    charts=build_charts,
    stages=_build_stages,
    access=shared_ports.build_access,
    refusals=_find_refusals,
    deploys_driver=True,
)
