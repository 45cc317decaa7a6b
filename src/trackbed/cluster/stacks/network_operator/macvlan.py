"""`network-operator-macvlan`: pods share ports, each with a macvlan interface of its own on every rail.

The RDMA shared device plugin counts each rail's port as one resource for many pods, a MacvlanNetwork puts an interface
on the port into the pod, NV-IPAM or Whereabouts gives it an address. The RDMA device stays in the host's namespace and
serves all pods, so the RDMA namespace mode must be shared: in exclusive mode the plugin ends at its start.
Follows the Network Operator's deployment guide, "RDMA shared device plugin" and "Macvlan network".
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.cluster.stacks import pod_ipam
from trackbed.cluster.stacks.network_operator import shared_ports
from trackbed.cluster.stacks.network_operator.policy import NAMESPACE
from trackbed.cluster.stacks.network_operator.secondary import charts
from trackbed.cluster.stacks.objects import Manifest, manifest, without_none
from trackbed.cluster.stacks.port_names import unlike_names
from trackbed.cluster.stacks.stack import Stack, Stage
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, RailPlan


def _stages(plan: Plan) -> Iterator[Stage]:
    return shared_ports.stages(plan, _network)


def _network(plan: Plan, rail: RailPlan) -> Manifest:
    """Mode bridge, so that pods of one node reach each other on a rail."""
    spec = without_none(
        networkNamespace=plan.kubernetes.namespace,
        master=shared_ports.master(plan, rail),
        mode="bridge",
        mtu=plan.common.mtu_bytes,
        ipam=pod_ipam.section_text(plan, rail),
    )
    return manifest("mellanox.com/v1alpha1", "MacvlanNetwork", rail.network, spec=spec)


def _refusals(plan: Plan) -> Iterator[Problem]:
    if plan.common.link_type != "ethernet":
        message = "InfiniBand has no macvlan, and linkType is infiniband: take network-operator-ipoib"
        yield Problem("stack-link-type", message, ("spec", "linkType"))
        return
    yield from unlike_names(plan, "a MacvlanNetwork")
    yield from shared_ports.refusals(plan)
    if plan.common.scheme not in {"shared-subnet", "node-subnet"}:
        message = (
            f"scheme {plan.common.scheme} leaves no address for an interface beside the port's: write scheme "
            "shared-subnet or node-subnet"
        )
        yield Problem("stack-scheme", message, ("spec", "addressing", "scheme"))
        return
    yield from pod_ipam.refusals(plan, NAMESPACE)


STACK = Stack(
    name="network-operator-macvlan",
    title="Network Operator: pods share ports, each with a macvlan interface on every rail; one RDMA device serves all",
    needs=(
        "NVIDIA Network Operator",
        "scheme shared-subnet or node-subnet",
        "RDMA namespace mode shared",
        "the same port names on all nodes: names.netdev, or equal hardware",
    ),
    cannot=(
        "RDMA devices or counters of a pod's own: the port's serve all pods",
        "source routing inside the pod: rails that are routed to each other share one routing table",
        "traffic between a pod and its own node on a rail (macvlan)",
        "InfiniBand (take network-operator-ipoib)",
    ),
    charts=charts,
    stages=_stages,
    access=shared_ports.access,
    refusals=_refusals,
)
