"""`network-operator-ipoib`: pods share InfiniBand ports, each with an IPoIB interface of its own on every rail.

The RDMA shared device plugin counts each rail's port as one resource for many pods, an IPoIBNetwork puts a child of the
port's IPoIB interface into the pod, NV-IPAM or Whereabouts gives it an address. The child has its parent's MTU and
partition, so a pod has one PKey on all rails. Without namespace mode shared the plugin ends at its start.
Follows the Network Operator's deployment guide, "IP over InfiniBand network with RDMA shared device".
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.cluster.stacks import pod_ipam
from trackbed.cluster.stacks.network_operator import shared_ports
from trackbed.cluster.stacks.network_operator.policy import NAMESPACE, image
from trackbed.cluster.stacks.network_operator.secondary import charts
from trackbed.cluster.stacks.objects import Manifest, manifest, without_none
from trackbed.cluster.stacks.port_names import unlike_names
from trackbed.cluster.stacks.stack import Stack, Stage
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, RailPlan


def _stages(plan: Plan) -> Iterator[Stage]:
    return shared_ports.stages(plan, _network, {"ipoib": image(plan, "ipoib-cni")})


def _network(plan: Plan, rail: RailPlan) -> Manifest:
    spec = without_none(
        networkNamespace=plan.kubernetes.namespace,
        master=shared_ports.master(plan, rail),
        ipam=pod_ipam.section_text(plan, rail),
    )
    return manifest("mellanox.com/v1alpha1", "IPoIBNetwork", rail.network, spec=spec)


def _refusals(plan: Plan) -> Iterator[Problem]:
    if plan.common.link_type != "infiniband":
        message = "IPoIB is for InfiniBand, and linkType is ethernet: take network-operator-macvlan"
        yield Problem("stack-link-type", message, ("spec", "linkType"))
        return
    yield from unlike_names(plan, "an IPoIBNetwork")
    yield from shared_ports.refusals(plan)
    if plan.kubernetes.pkey is not None:
        message = (
            "an IPoIBNetwork has its parent interface's partition and names no PKey: leave out kubernetes.pkey, or "
            "take network-operator-ib-sriov"
        )
        yield Problem("stack-pkey", message, ("spec", "kubernetes", "pkey"))
    if plan.common.scheme != "shared-subnet":
        message = (
            f"an InfiniBand rail is one IP subnet, and scheme is {plan.common.scheme}: write scheme shared-subnet, or "
            "take network-operator-ib-sriov where pods need no IP addresses"
        )
        yield Problem("stack-scheme", message, ("spec", "addressing", "scheme"))
        return
    yield from pod_ipam.refusals(plan, NAMESPACE)


STACK = Stack(
    name="network-operator-ipoib",
    title="Network Operator: pods share InfiniBand ports, each with an IPoIB interface on every rail",
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
    ),
    charts=charts,
    stages=_stages,
    access=shared_ports.access,
    refusals=_refusals,
)
