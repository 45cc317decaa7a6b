"""SpiderMultusConfig: one network a rail; Spiderpool makes the NetworkAttachmentDefinition of it.

sriov      a VF moves into the pod; the tuning plugin sets its MTU, the RDMA plugin moves its RDMA device
ib-sriov   the same on InfiniBand; ib-kubernetes makes the VF a member of the partition where one is given
macvlan    a sub-interface of the port; the RDMA devices of all rails stay shared, one resource counts them

Every network carries `cni.spidernet.io/rdma-resource-inject: <fabric>`: with the pod webhook switched on, a pod with
the same annotation gets all rails. Pods here name networks and resources themselves instead: the webhook sorts by text
(rail10 before rail2) and changes pods after a queue has counted their resources.
"""

from __future__ import annotations

from typing import Any

from trackbed.cluster.stacks.objects import Manifest, manifest, without_none
from trackbed.cluster.stacks.rails import prefix, resource
from trackbed.cluster.stacks.spiderpool.pools import API, versions, wildcard
from trackbed.fabric.plan.plan import Plan, RailPlan

PREFIX = "spidernet.io"
"""Resource prefix of the SR-IOV operator and RDMA device plugin that Spiderpool's chart installs."""
INJECT = "cni.spidernet.io/rdma-resource-inject"


def kind(plan: Plan) -> str:
    """The CNI plugin: VFs where there are any, else macvlan."""
    if not plan.common.vfs:
        return "macvlan"
    return "sriov" if plan.common.link_type == "ethernet" else "ib-sriov"


def network(plan: Plan, rail: RailPlan) -> Manifest:
    """A rail's network, in the pods' namespace."""
    found = versions(plan)
    cni = kind(plan)
    make = {"sriov": _sriov, "ib-sriov": _ib_sriov, "macvlan": _macvlan}[cni]
    spec: dict[str, Any] = {"cniType": cni} if found else {"cniType": cni, "disableIPAM": True}
    spec[cni.replace("-", "")] = make(plan, rail) | ({"ippools": _ippools(plan, rail)} if found else {})
    annotations = {INJECT: plan.common.fabric} if found else None
    return manifest(
        API, "SpiderMultusConfig", rail.network, plan.kubernetes.namespace, annotations=annotations, spec=spec
    )


def shared_resource(plan: Plan) -> str:
    """The one resource of all rails in mode macvlan: the plugin hands every device of a resource to each container."""
    return f"{prefix(plan, PREFIX)}/{plan.common.fabric.replace('-', '_')}"


def _sriov(plan: Plan, rail: RailPlan) -> dict[str, Any]:
    return {
        "resourceName": resource(rail, PREFIX),
        "rdmaIsolation": plan.common.rdma_mode == "exclusive",
        "mtu": plan.common.vf_mtu_bytes,
    }


def _ib_sriov(plan: Plan, rail: RailPlan) -> dict[str, Any]:
    """A VF of InfiniBand. A partition key does nothing without ib-kubernetes, which tells the subnet manager of it."""
    pkey = plan.kubernetes.pkey
    return without_none(
        resourceName=resource(rail, PREFIX),
        rdmaIsolation=plan.common.rdma_mode == "exclusive",
        pkey=f"0x{pkey:04x}" if pkey is not None else None,
        enableIbKubernetes=True if pkey is not None else None,
    )


def _macvlan(plan: Plan, rail: RailPlan) -> dict[str, Any]:
    """A sub-interface of the port, with the port's MTU."""
    return {"master": [_master(plan, rail)], "rdmaResourceName": shared_resource(plan)}


def _master(plan: Plan, rail: RailPlan) -> str:
    """What the port is called: the name it has or gets on every node, which refusals make sure of."""
    ports = (node.find_port(rail.rail) for node in plan.nodes)
    return next((port.netdev for port in ports if port is not None), rail.netdev)


def _ippools(plan: Plan, rail: RailPlan) -> dict[str, Any]:
    own = {f"ipv{version}": [wildcard(rail, version)] for version in versions(plan)}
    matched = kind(plan) == "sriov" and plan.common.scheme == "node-subnet"
    return own | ({"matchMasterSubnet": True} if matched else {})
