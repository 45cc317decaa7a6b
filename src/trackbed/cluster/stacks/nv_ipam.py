"""Pools of NV-IPAM (nv-ipam.nvidia.com/v1alpha1), from which each node assigns addresses to its pods.

CIDRPool   schemes node-subnet and point-to-point: each node has a fixed subnet of the rail's range
IPPool     scheme shared-subnet: NV-IPAM assigns blocks of one subnet to nodes; addresses of ports are excluded

Both select the nodes of the fabric. Otherwise NV-IPAM would also assign blocks to all other nodes of the cluster, and
none might be left for a node that joins the fabric later.
"""

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.stacks.groups import build_node_selector
from trackbed.cluster.stacks.objects import Manifest, build_manifest, drop_none
from trackbed.cluster.stacks.rails import iter_address_blocks
from trackbed.cluster.stacks.size import check_object_size
from trackbed.cluster.stacks.stack import Wait
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import V4, V6, format_address
from trackbed.fabric.plan.plan import AddressPlan, NodePlan, Plan, RailPlan

API = "nv-ipam.nvidia.com/v1alpha1"
STATUS_BYTES_PER_NODE = 97
"""Bytes that NV-IPAM's controller adds to the status of a pool for each node, as measured."""

FIXED_IPV6 = (
    "one IPv6 address for every pod of a port with ipv6NodePrefix below 127: NV-IPAM deals those of the subnet in turn"
)
"""What stacks cannot that give pods a port's subnet (`getIter` of pkg/ipam-node/allocator starts at the last one)."""

DEALT_BLOCKS = (
    "on scheme shared-subnet with NV-IPAM, the pod addresses that the plan lists: it deals blocks to nodes as they "
    "come; with gateway first one node has one address fewer"
)
"""What stacks cannot whose pools are IPPools: pods get free addresses of the rail, not those planned for the node.

The gateway is in NV-IPAM's first block, where the plan has no pods.
"""


def build_pools(plan: Plan, namespace: str) -> Iterator[Manifest]:
    """Yield the pools of all rails in the namespace, those of IPv4 first."""
    build = _build_ip_pool if plan.common.has_shared_subnets else _build_cidr_pool
    for version in (V4, V6):
        for rail in plan.common.rails:
            blocks = list(iter_address_blocks(plan, rail.rail, version))
            if blocks:
                yield build(plan, rail, blocks, namespace)


def build_pool_waits(plan: Plan, namespace: str) -> tuple[Wait, ...]:
    """Return a wait for each pool, until the controller has assigned addresses to a node."""
    kind = "ippools" if plan.common.has_shared_subnets else "cidrpools"
    names = [
        name for version in (V4, V6) for rail in plan.common.rails for name in _list_pool_names(plan, rail, version)
    ]
    allocations = "jsonpath={.status.allocations}"
    return tuple(Wait(f"{kind}.{API.partition('/')[0]}/{name}", allocations, namespace) for name in names)


def build_ipam(plan: Plan, rail: RailPlan) -> dict[str, Any]:
    """Return the ipam section of a rail's CNI configuration, with the pools of all planned IP versions."""
    names = [name for version in (V4, V6) for name in _list_pool_names(plan, rail, version)]
    kind = {} if plan.common.has_shared_subnets else {"poolType": "cidrpool"}
    return {"type": "nv-ipam", "poolName": ",".join(names), **kind}


def get_pool_name(rail: RailPlan, ip_version: int) -> str:
    """Return the name of a rail's pool: that of its network, with a suffix for IPv6 if the rail also has IPv4."""
    return rail.network if ip_version == V4 or rail.v4 is None else f"{rail.network}-ipv6"


def find_refusals(plan: Plan, pool_namespace: str) -> Iterator[Problem]:
    """Yield a problem if the plan has no pod addresses, or for each pool that becomes too large for etcd."""
    shared = plan.common.scheme != "point-to-point"
    if shared and any(not block.pods_count for block in plan.nodes[0].ports[0].addresses):
        yield Problem(
            "no-pod-addresses",
            "podAddresses is 0, so no address is left for pods; write how many pods a node may have on a rail",
            ("spec", "addressing", "podAddresses"),
        )
        return
    remedy = "cut the fabric into several with fewer nodes each, or use a stack without pools (native, dranet)"
    for pool in build_pools(plan, pool_namespace):
        if problem := check_object_size(pool, len(plan.nodes), STATUS_BYTES_PER_NODE, remedy):
            yield problem


def _list_pool_names(plan: Plan, rail: RailPlan, ip_version: int) -> list[str]:
    """Return a list of the pool's name, or an empty list if the rail has no addresses of this IP version."""
    return [get_pool_name(rail, ip_version)] if any(iter_address_blocks(plan, rail.rail, ip_version)) else []


def _build_pool_routes(plan: Plan, rail: RailPlan, block: AddressPlan) -> list[dict[str, str]] | None:
    """Return routes to the rail's range and, with routed rails, to all rails; None without a gateway.

    There is no route to the subnet itself, as it would send traffic between neighbours through the gateway.
    """
    if not block.gateway:
        return None
    rail_range = rail.v4 if block.version == V4 else rail.v6
    supernet = plan.common.get_supernet(block.version) if plan.common.cross_rail == "routed" else None
    destinations = dict.fromkeys(range_ for range_ in (rail_range, supernet) if range_ and range_ != block.subnet)
    return [{"dst": str(destination)} for destination in destinations] or None


def _build_cidr_pool(
    plan: Plan, rail: RailPlan, blocks: list[tuple[NodePlan, AddressPlan]], namespace: str
) -> Manifest:
    first = blocks[0][1]
    version = first.version
    port_index = first.address - first.subnet.base
    # With scheme point-to-point the port itself moves into the pod with its address, so none is excluded.
    exclusions = [{"startIndex": port_index, "endIndex": port_index}]
    spec = drop_none(
        cidr=str(rail.v4 if version == V4 else rail.v6),
        gatewayIndex=first.gateway - first.subnet.base,
        perNodeNetworkPrefix=first.prefix,
        perNodeExclusions=None if plan.common.scheme == "point-to-point" else exclusions,
        routes=_build_pool_routes(plan, rail, first),
        staticAllocations=[
            {"gateway": format_address(version, block.gateway), "nodeName": node.name, "prefix": str(block.subnet)}
            for node, block in blocks
        ],
        nodeSelector=build_node_selector(plan),
    )
    return build_manifest(API, "CIDRPool", get_pool_name(rail, version), namespace, spec=spec)


def _build_ip_pool(plan: Plan, rail: RailPlan, blocks: list[tuple[NodePlan, AddressPlan]], namespace: str) -> Manifest:
    """Return an IPPool with the planned blocks, except that each starts one address later.

    NV-IPAM divides the subnet from its first usable address. The last address of each block therefore belongs to the
    port of the next node, and is excluded.
    """
    first = blocks[0][1]
    block_size = first.pods_count + 1
    spec = drop_none(
        subnet=str(first.subnet),
        perNodeBlockSize=block_size,
        perNodeExclusions=[{"startIndex": block_size - 1, "endIndex": block_size - 1}],
        gateway=format_address(first.version, first.gateway) if first.gateway else None,
        routes=_build_pool_routes(plan, rail, first),
        nodeSelector=build_node_selector(plan),
    )
    return build_manifest(API, "IPPool", get_pool_name(rail, first.version), namespace, spec=spec)
