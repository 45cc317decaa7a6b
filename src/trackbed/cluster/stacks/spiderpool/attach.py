"""`spiderpool`: VFs (or macvlan) by Multus, addresses by Spiderpool; "solution 1" and "solution 2" of its AI guides.

Scheme shared-subnet is solution 1, node-subnet solution 2. Without disjoint pools two pods would get one address;
without the route to all rails on the first rail control traffic between nodes would leave by the primary network.
Follows the AI guides of spidernet-io.github.io/spiderpool (SR-IOV for RoCE and InfiniBand, macvlan) and its CRDs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.stacks import sriov
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.rails import networks, port_hcas, prefix, resources
from trackbed.cluster.stacks.spiderpool.networks import PREFIX, kind, network, shared_resource
from trackbed.cluster.stacks.spiderpool.pools import pools, versions
from trackbed.cluster.stacks.spiderpool.refusals import device_ids, refusals
from trackbed.cluster.stacks.stack import Chart, Stack, Stage, Wait
from trackbed.fabric.model.ranges import V4, V6
from trackbed.fabric.plan.plan import Plan

NAMESPACE = "spiderpool"
"""Where the chart goes, the SR-IOV operator with it: its policies must be in its own namespace."""


def _charts(plan: Plan) -> tuple[Chart, ...]:
    """Spiderpool's chart brings Multus, the CNI plugins, and the operator or device plugin that counts the rails.

    SpiderSubnets are off: with them on, pools may only hold addresses that a SpiderSubnet has been given first.
    """
    ipam = {f"enableIPv{version}": version in versions(plan) for version in (V4, V6)}
    values: dict[str, Any] = {"ipam": ipam | {"spiderSubnet": {"enable": False}}}
    values |= _shared_devices(plan) if kind(plan) == "macvlan" else _sriov_operator(plan)
    until = Wait("deployment/spiderpool-controller", "condition=Available", NAMESPACE)
    return (Chart("spiderpool", NAMESPACE, values, (until,)),)


def _sriov_operator(plan: Plan) -> dict[str, Any]:
    return {"sriov": {"install": True, "resourcePrefix": prefix(plan, PREFIX)}}


def _shared_devices(plan: Plan) -> dict[str, Any]:
    """The RDMA shared device plugin: one resource for all rails, selected by the NIC's PCI ids and the ports' names."""
    (vendor, device), *_ = device_ids(plan)
    own, _, name = shared_resource(plan).rpartition("/")
    names = sorted({port.netdev: None for node in plan.nodes for port in node.ports})
    config = {"resourcePrefix": own, "resourceName": name, "vendors": vendor, "deviceIDs": device, "ifNames": names}
    return {
        "plugins": {"installCNI": True},
        "rdma": {"rdmaSharedDevicePlugin": {"install": True, "deviceConfig": config}},
    }


def _stages(plan: Plan) -> Iterator[Stage]:
    if kind(plan) != "macvlan":
        yield _functions(plan)
    yield Stage("pools", pools(plan))
    yield Stage("networks", (network(plan, rail) for rail in plan.common.rails))


def _functions(plan: Plan) -> Stage:
    """The policies alone: the operator in Spiderpool's chart is older than the RDMA mode of SriovNetworkPoolConfig."""
    stage = next(iter(sriov.stages(plan, NAMESPACE, NAMESPACE, PREFIX)))
    policies = (one for one in stage.objects if one["kind"] == "SriovNetworkNodePolicy")
    return Stage(stage.name, policies, stage.until)


def _access(plan: Plan) -> Access:
    if kind(plan) == "macvlan":
        return Access(networks=networks(plan), resources=((shared_resource(plan), 1),), hcas=port_hcas(plan))
    return Access(networks=networks(plan), resources=resources(plan, PREFIX))


STACK = Stack(
    name="spiderpool",
    title="Multus attaches VFs or macvlan interfaces; Spiderpool deals addresses, of one subnet or of a node's own",
    needs=(
        "Spiderpool 1.2",
        "addresses on the ports (for solution 2: Spiderpool finds the subnet by them)",
        "with docker as container runtime: hostPID for spiderpool-agent",
        "for its pod webhook (optional): chart value spiderpoolController.podResourceInject.enabled",
        "for an InfiniBand partition: ib-kubernetes with UFM",
    ),
    cannot=(
        "moving the ports themselves into pods (scheme point-to-point)",
        "giving a node its own block of a shared subnet: any pod of a rail gets any pod address of that rail",
        "many thousand nodes in scheme node-subnet in little time: its webhook compares each pool with all others",
    ),
    charts=_charts,
    stages=_stages,
    access=_access,
    refusals=refusals,
)
