"""SpiderIPPool: the pools of pod addresses that Spiderpool assigns, divided as in the plan.

shared-subnet   The pools of a rail have the same subnet and disjoint ranges: the pod addresses of each node's block, so
                that no address of a port or gateway is assigned. A pool records each address in its status and has at
                most 5000, so a rail has as many pools as it needs. A slot always belongs to the same pool.
node-subnet     Each node has a pool for each rail, pinned to the node by name; Spiderpool ignores pools of other nodes.
                With SR-IOV the networks also require that the VF's port has an address in the subnet
                (matchMasterSubnet).

Networks refer to their pools by a wildcard, so a fabric can grow without a change of its networks. Each rail has its
own pools: Spiderpool does not record the interface, so two rails with one pool would get the same address.

The pools follow the rules of Spiderpool's admission webhook: subnets have no host bits and are equal or disjoint;
ranges of equal subnets are disjoint; `routes` has no default route (that is `gateway`); next hops are in the subnet.
"""

from collections.abc import Iterator
from itertools import groupby

from trackbed.cluster.stacks.objects import Manifest, build_manifest, drop_none
from trackbed.cluster.stacks.rails import iter_address_blocks
from trackbed.fabric.model.ranges import V4, V6, format_address
from trackbed.fabric.plan.plan import AddressPlan, NodePlan, Plan, RailPlan

API = "spiderpool.spidernet.io/v2beta1"
MAX_POOL_ADDRESSES = 5000
"""Largest number of addresses in a pool (SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS), so that its status fits in etcd."""


def build_pools(plan: Plan) -> Iterator[Manifest]:
    """Yield the SpiderIPPools of all rails, those of IPv4 first."""
    build = _build_shared_pools if plan.common.has_shared_subnets else _build_node_pools
    for version in list_ip_versions(plan):
        for rail in plan.common.rails:
            yield from build(plan, rail, version)


def list_ip_versions(plan: Plan) -> list[int]:
    """Return the IP versions, 4 and 6, of which the plan has addresses."""
    rail = plan.common.rails[0]
    return [version for version, addresses in ((V4, rail.v4), (V6, rail.v6)) if addresses is not None]


def get_pool_name(rail: RailPlan, ip_version: int, suffix: str) -> str:
    """Return the name of a rail's pool; suffix `*` matches all pools of the rail, but none of rail10 for rail1."""
    return f"{rail.network}-v{ip_version}-{suffix}"


def iter_pod_blocks(plan: Plan, rail_number: int, ip_version: int) -> Iterator[tuple[NodePlan, AddressPlan]]:
    """Return an iterator over the nodes with pod addresses on a rail, each with its block, in the plan's order."""
    return ((node, block) for node, block in iter_address_blocks(plan, rail_number, ip_version) if block.pods_count)


def _build_shared_pools(plan: Plan, rail: RailPlan, ip_version: int) -> Iterator[Manifest]:
    nodes = list(iter_pod_blocks(plan, rail.rail, ip_version))
    nodes_per_pool = max(1, MAX_POOL_ADDRESSES // nodes[0][1].pods_count) if nodes else 1
    for number, members in groupby(nodes, key=lambda member: member[0].slot // nodes_per_pool):
        blocks = [block for _, block in members]
        yield _build_pool(
            plan, rail, blocks, get_pool_name(rail, ip_version, str(number)), is_first_rail=rail.rail == 0
        )


def _build_node_pools(plan: Plan, rail: RailPlan, ip_version: int) -> Iterator[Manifest]:
    for node, block in iter_pod_blocks(plan, rail.rail, ip_version):
        name, first = get_pool_name(rail, ip_version, node.name), node.ports[0].rail == rail.rail
        pool = _build_pool(plan, rail, [block], name, is_first_rail=first)
        pool["spec"]["nodeName"] = [node.name]
        yield pool


def _build_pool(
    plan: Plan, rail: RailPlan, blocks: list[AddressPlan], pool_name: str, *, is_first_rail: bool
) -> Manifest:
    first_block = blocks[0]
    spec = drop_none(
        ipVersion=first_block.version,
        subnet=str(first_block.subnet),
        ips=[_render_pod_range(block) for block in blocks],
        gateway=format_address(first_block.version, first_block.gateway) if first_block.gateway else None,
        routes=_build_pool_routes(plan, rail, first_block, is_first_rail=is_first_rail) or None,
    )
    return build_manifest(API, "SpiderIPPool", pool_name, spec=spec)


def _render_pod_range(block: AddressPlan) -> str:
    start, end = block.pods_first, block.pods_first + block.pods_count - 1
    low = format_address(block.version, start)
    return low if start == end else f"{low}-{format_address(block.version, end)}"


def _build_pool_routes(plan: Plan, rail: RailPlan, block: AddressPlan, *, is_first_rail: bool) -> list[dict[str, str]]:
    """Return routes of the pod's main table: to the rail's range and, on the first of routed rails, to all rails.

    Only one rail has the route to all rails, as an unbound socket would otherwise have a choice of eight equal routes.
    The list is empty without a gateway.
    """
    if not block.gateway:
        return []
    rail_range = rail.v4 if block.version == V4 else rail.v6
    supernet = plan.common.get_supernet(block.version) if is_first_rail and plan.common.cross_rail == "routed" else None
    gateway = format_address(block.version, block.gateway)
    destinations = dict.fromkeys(range_ for range_ in (rail_range, supernet) if range_ and range_ != block.subnet)
    return [{"dst": str(destination), "gw": gateway} for destination in destinations]
