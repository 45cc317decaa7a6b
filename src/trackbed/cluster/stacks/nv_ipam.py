"""Pools of NV-IPAM (nv-ipam.nvidia.com/v1alpha1): addresses that each node deals out by itself.

CIDRPool   a range for each node, cut from a rail's: schemes node-subnet and point-to-point, nodes pinned as planned
IPPool     blocks of one subnet: scheme shared-subnet; NV-IPAM gives blocks to nodes, ports' addresses are kept out

Both select the fabric's nodes: NV-IPAM would give every other node of the cluster a share too, and take it from one
that the plan has yet to see.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.stacks.groups import node_selector
from trackbed.cluster.stacks.objects import Manifest, manifest, without_none
from trackbed.cluster.stacks.size import too_large
from trackbed.cluster.stacks.stack import Wait
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.plan import AddressPlan, Plan, RailPlan

API = "nv-ipam.nvidia.com/v1alpha1"
STATUS_BYTES = 97
"""What the controller writes for each node into a pool's status, measured."""


def pools(plan: Plan, namespace: str) -> Iterator[Manifest]:
    """The pools of all rails, IPv4 first."""
    for version in (4, 6):
        for rail in plan.common.rails:
            held = _held(plan, rail.rail, version)
            if held:
                make = _ip_pool if plan.common.scheme == "shared-subnet" else _cidr_pool
                yield make(plan, rail, held, namespace)


def allocated(plan: Plan, namespace: str) -> tuple[Wait, ...]:
    """Each pool's controller has given some node its share: without it no pod of that rail gets an address."""
    kind = "ippools" if plan.common.scheme == "shared-subnet" else "cidrpools"
    names = [pool_name(rail, own) for own in (4, 6) for rail in plan.common.rails if _held(plan, rail.rail, own)]
    some = "jsonpath={.status.allocations}"
    return tuple(Wait(f"{kind}.{API.partition('/')[0]}/{name}", some, namespace) for name in names)


def ipam(plan: Plan, rail: RailPlan) -> dict[str, Any]:
    """The ipam section of a rail's network: its pool, or its pools of both IP versions."""
    names = [pool_name(rail, version) for version in (4, 6) if _held(plan, rail.rail, version)]
    kind = {} if plan.common.scheme == "shared-subnet" else {"poolType": "cidrpool"}
    return {"type": "nv-ipam", "poolName": ",".join(names), **kind}


def pool_name(rail: RailPlan, version: int) -> str:
    """The rail's network name; IPv6 beside it has a name of its own."""
    return rail.network if version == 4 or rail.v4 is None else f"{rail.network}-ipv6"  # noqa: PLR2004 - an IP version


def refusals(plan: Plan, namespace: str) -> Iterator[Problem]:
    """Pools without an address for pods, and pools that outgrow etcd once every node has its entry in the status."""
    shared = plan.common.scheme != "point-to-point"
    if shared and any(not own.pods_count for own in plan.nodes[0].ports[0].addresses):
        message = "podAddresses is 0, so no address is left for pods; write how many pods a node may have on a rail"
        yield Problem("no-pod-addresses", message, ("spec", "addressing", "podAddresses"))
        return
    remedy = "cut the fabric into several with fewer nodes each, or use a stack without pools (native, dranet)"
    for pool in pools(plan, namespace):
        if problem := too_large(pool, len(plan.nodes), STATUS_BYTES, remedy):
            yield problem


def _held(plan: Plan, rail: int, version: int) -> list[tuple[str, AddressPlan]]:
    """Each node with its addressing on a rail."""
    found = []
    for node in plan.nodes:
        port = node.find_port(rail)
        own = (port.v4 if version == 4 else port.v6) if port else None  # noqa: PLR2004 - an IP version
        if own is not None:
            found.append((node.name, own))
    return found


def _routes(plan: Plan, rail: RailPlan, own: AddressPlan) -> list[dict[str, str]] | None:
    """The rail's own range and, where rails are routed to each other, all of them; none without a gateway.

    Not the subnet itself: a route to it by the gateway would send neighbours' traffic through the router.
    """
    if not own.gateway:
        return None
    mine = rail.v4 if own.version == 4 else rail.v6  # noqa: PLR2004 - an IP version
    beyond = plan.common.get_supernet(own.version) if plan.common.cross_rail == "routed" else None
    wider = dict.fromkeys(found for found in (mine, beyond) if found and found != own.subnet)
    return [{"dst": str(found)} for found in wider] or None


def _cidr_pool(plan: Plan, rail: RailPlan, held: list[tuple[str, AddressPlan]], namespace: str) -> Manifest:
    sample = held[0][1]
    version = sample.version
    spec = without_none(
        cidr=str(rail.v4 if version == 4 else rail.v6),  # noqa: PLR2004 - an IP version
        gatewayIndex=sample.gateway - sample.subnet.base,
        perNodeNetworkPrefix=sample.prefix,
        perNodeExclusions=_reserved(plan, sample),
        routes=_routes(plan, rail, sample),
        staticAllocations=[
            {"gateway": format_address(version, own.gateway), "nodeName": name, "prefix": str(own.subnet)}
            for name, own in held
        ],
        nodeSelector=node_selector(plan),
    )
    return manifest(API, "CIDRPool", pool_name(rail, version), namespace, spec=spec)


def _reserved(plan: Plan, own: AddressPlan) -> list[dict[str, int]] | None:
    """The port's own address, unless the port itself moves into the pod and takes it along."""
    if plan.common.scheme == "point-to-point":
        return None
    index = own.address - own.subnet.base
    return [{"startIndex": index, "endIndex": index}]


def _ip_pool(plan: Plan, rail: RailPlan, held: list[tuple[str, AddressPlan]], namespace: str) -> Manifest:
    """Blocks of a port and its pods, as planned; a block starts one address later than the plan's.

    NV-IPAM cuts blocks from the first usable address on, so the port of the next block is the last of each: excluded.
    """
    own = held[0][1]
    block = own.pods_count + 1
    spec = without_none(
        subnet=str(own.subnet),
        perNodeBlockSize=block,
        perNodeExclusions=[{"startIndex": block - 1, "endIndex": block - 1}],
        gateway=format_address(own.version, own.gateway) if own.gateway else None,
        routes=_routes(plan, rail, own),
        nodeSelector=node_selector(plan),
    )
    return manifest(API, "IPPool", pool_name(rail, own.version), namespace, spec=spec)
