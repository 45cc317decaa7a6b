"""Objects of the SR-IOV network operator (sriovnetwork.openshift.io/v1), whoever installs it.

SriovNetworkNodePolicy    which ports get VFs, how many, and the resource they count as
SriovNetworkPoolConfig    the RDMA namespace mode of the nodes, and how many are drained and rebooted at once
SriovNetwork              a rail's network on Ethernet; the operator makes the NetworkAttachmentDefinition
SriovIBNetwork            the same on InfiniBand

Policies select ports by the planned name. Without the rdma CNI in exclusive mode a pod would see its VF and no RDMA
device; without source routing answers to another rail would leave by the first rail.
Follows the operator's CRDs, its webhook (pkg/webhook/validate.go) and the Network Operator's deployment guide.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from trackbed.cluster.stacks import pod_ipam
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.groups import Group, groups, selector
from trackbed.cluster.stacks.objects import Manifest, manifest, without_none
from trackbed.cluster.stacks.rails import networks, resource, resources, short_resource
from trackbed.cluster.stacks.stack import Stage, Wait
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, RailPlan

API = "sriovnetwork.openshift.io/v1"
MAX_VFS, MAX_IB_VFS = 128, 16
"""VFs a port: what the operator's webhook takes of NVIDIA NICs; on InfiniBand the Network Operator's limit (25.1)."""
SYSCTLS = {"rp_filter": "2", "arp_ignore": "1", "arp_announce": "2"}
"""net.ipv4.conf of each rail in a pod: loose reverse path check, no ARP in the name of another rail."""
READY_SECONDS = 7200
"""Ten rounds of draining and rebooting nodes with slow firmware."""


def stages(plan: Plan, namespace: str, pools: str, prefix: str) -> Iterator[Stage]:
    """VFs, address pools, networks. `namespace` is the operator's, `pools` NV-IPAM's, `prefix` the resources' own."""
    yield Stage("virtual functions", _functions(plan, namespace), tuple(_ready(plan, namespace, prefix)))
    yield from pod_ipam.pool_stages(plan, pools)
    yield Stage("networks", (network(plan, rail, namespace) for rail in plan.common.rails))


def access(plan: Plan, prefix: str) -> Access:
    """Networks and resources; the RDMA devices of VFs have names that nobody knows beforehand."""
    return Access(networks=networks(plan), resources=resources(plan, prefix))


def network(plan: Plan, rail: RailPlan, namespace: str) -> Manifest:
    """A rail's network, of the link's kind."""
    return (_ethernet if plan.common.link_type == "ethernet" else _infiniband)(plan, rail, namespace)


def refusals(plan: Plan, pools: str) -> Iterator[Problem]:
    """Plans that VFs cannot carry; `pools` is the namespace of NV-IPAM's pools."""
    yield from _vfs(plan)
    message = (
        "a /31 has no address besides the port's and its leaf's, so none is left for a VF: write scheme "
        "node-subnet or shared-subnet, or take network-operator-hostdevice, which moves the port itself"
    )
    problem = find_scheme_problem(plan, message)
    yield from (problem,) if problem else pod_ipam.refusals(plan, pools)


def find_scheme_problem(plan: Plan, point_to_point: str) -> Problem | None:
    """Return why the addressing scheme has no address for VFs; `point_to_point` is the message for that scheme."""
    link, scheme, message = plan.common.link_type, plan.common.scheme, None
    if scheme == "point-to-point":
        message = point_to_point
    elif scheme == "none" and link == "ethernet":
        message = "RoCE needs IP addresses and scheme none plans none: write scheme shared-subnet or node-subnet"
    elif scheme == "node-subnet" and link == "infiniband":
        message = (
            "scheme node-subnet needs leaves that route IP, InfiniBand switches do not: write scheme shared-subnet, or "
            "none where pods need no IP addresses"
        )
    return Problem("stack-scheme", message, ("spec", "addressing", "scheme")) if message else None


def _vfs(plan: Plan) -> Iterator[Problem]:
    where, link = ("spec", "vfs", "count"), plan.common.link_type
    limit = MAX_VFS if link == "ethernet" else MAX_IB_VFS
    if not plan.common.vfs:
        message = "pods get virtual functions on this stack, and vfs.count is 0: write how many a port shall have"
        yield Problem("stack-needs-vfs", f"{message}, for example 8", where)
    elif plan.common.vfs > limit:
        message = (
            f"{plan.common.vfs} VFs a port; the operator and the NICs take {limit} on {link}: write {limit} or less"
        )
        yield Problem("stack-too-many-vfs", message, where)


def _functions(plan: Plan, namespace: str) -> Iterator[Manifest]:
    yield _pool_config(plan, namespace)
    found = groups(plan)
    for rail in plan.common.rails:
        ports = [(group, port.netdev) for group in found for port in group.ports if port.rail == rail.rail]
        yield from _policies(plan, rail, namespace, ports)


def _pool_config(plan: Plan, namespace: str) -> Manifest:
    """A tenth of the nodes at once: an integer, since a percentage of few nodes rounds down to none."""
    spec = {
        "maxUnavailable": max(1, plan.common.nodes // 10),
        "nodeSelector": {"matchLabels": selector(plan)},
        "rdmaMode": plan.common.rdma_mode,
    }
    return manifest(API, "SriovNetworkPoolConfig", plan.common.fabric, namespace, spec=spec)


def _policies(plan: Plan, rail: RailPlan, namespace: str, ports: list[tuple[Group, str]]) -> Iterator[Manifest]:
    """One policy where all nodes call the rail's port alike, else one for each group of nodes."""
    alike = len({netdev for _, netdev in ports}) == 1
    for group, netdev in ports[:1] if alike else ports:
        name = rail.network if alike else f"{rail.network}-g{group.index}"
        spec = _policy(plan, rail, netdev, selector(plan) if alike else group.selector)
        yield manifest(API, "SriovNetworkNodePolicy", name, namespace, spec=spec)


def _policy(plan: Plan, rail: RailPlan, netdev: str, nodes: dict[str, str]) -> dict[str, Any]:
    return {
        "resourceName": short_resource(rail),
        "nodeSelector": nodes,
        "nicSelector": {"pfNames": [netdev]},
        "numVfs": plan.common.vfs,
        "mtu": plan.common.vf_mtu_bytes,
        "deviceType": "netdevice",
        "isRdma": True,
        "linkType": "eth" if plan.common.link_type == "ethernet" else "ib",
    }


def _ready(plan: Plan, namespace: str, prefix: str) -> Iterator[Wait]:
    """All nodes configured; and their VFs counted, since a state read too early still tells of the time before."""
    yield Wait("sriovnetworknodestates --all", "jsonpath={.status.syncStatus}=Succeeded", namespace, READY_SECONDS)
    nodes = "nodes --selector=" + ",".join(f"{key}={value}" for key, value in selector(plan).items())
    if all(len(group.ports) == len(plan.common.rails) for group in groups(plan)):
        for rail in plan.common.rails:
            path = resource(rail, prefix).replace(".", "\\.")
            yield Wait(nodes, f"jsonpath={{.status.allocatable.{path}}}={plan.common.vfs}", None, READY_SECONDS)


def _ethernet(plan: Plan, rail: RailPlan, namespace: str) -> Manifest:
    spec = without_none(
        networkNamespace=plan.kubernetes.namespace,
        resourceName=short_resource(rail),
        ipam=pod_ipam.section_text(plan, rail),
        linkState="auto",
        spoofChk="on" if plan.common.vf_spoof_check else "off",
        trust="on" if plan.common.vf_trust else "off",
        metaPlugins=_meta_plugins(plan),
    )
    return manifest(API, "SriovNetwork", rail.network, namespace, spec=spec)


def _infiniband(plan: Plan, rail: RailPlan, namespace: str) -> Manifest:
    """A VF's link stays down until its policy says otherwise, hence enable."""
    spec = without_none(
        networkNamespace=plan.kubernetes.namespace,
        resourceName=short_resource(rail),
        ipam=pod_ipam.section_text(plan, rail),
        linkState="enable",
        metaPlugins=_meta_plugins(plan),
    )
    return manifest(API, "SriovIBNetwork", rail.network, namespace, spec=spec)


def _meta_plugins(plan: Plan) -> str | None:
    """CNI plugins chained after the VF's, as the operator takes them: objects with commas between."""
    found = list(_chained(plan))
    return ",\n".join(map(json.dumps, found)) + "\n" if found else None


def _chained(plan: Plan) -> Iterator[dict[str, Any]]:
    if plan.common.rdma_mode == "exclusive":
        yield {"type": "rdma"}
    if plan.common.link_type == "ethernet":
        yield {"type": "tuning", "sysctl": {f"net.ipv4.conf.IFNAME.{key}": value for key, value in SYSCTLS.items()}}
    if plan.common.cross_rail == "routed":
        yield {"type": "sbr"}
