"""SpiderIPPool: the addresses that Spiderpool deals out, cut as the plan cuts them.

shared-subnet   pools of one rail have the same subnet and disjoint ranges: the pods' part of each node's block, so no
                port and no gateway can be dealt out. A pool keeps a record of each address in its status and takes
                5000 of them, so a rail has as many pools as its pod addresses need; a slot always falls into the same.
node-subnet     a pool for each node and rail, pinned to the node by name. Pools that the node may not use are left out
                before any address is looked at, whatever the CNI plugin; the networks add what only SR-IOV can tell,
                that the VF's own port has an address in the subnet (matchMasterSubnet).

Networks take the pools by wildcard, so a fabric grows without a change of its networks. Each rail has pools of its own:
Spiderpool keeps no interface beside a record, two rails on one pool would get one address.

Rules of its admission webhook that these objects keep: subnets without host bits, equal or disjoint; ranges of equal
subnets disjoint; no default route among routes (that is `gateway`), every next hop inside the subnet.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from trackbed.cluster.stacks.objects import Manifest, manifest, without_none
from trackbed.fabric.model.ranges import V4, V6, format_address
from trackbed.fabric.plan.plan import AddressPlan, NodePlan, Plan, RailPlan

API = "spiderpool.spidernet.io/v2beta1"
RECORDS = 5000
"""Addresses that one pool hands out at most (SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS), so that its status fits in etcd."""


def pools(plan: Plan) -> Iterator[Manifest]:
    """All pools, IPv4 first, rail by rail."""
    make = _shared if plan.common.scheme == "shared-subnet" else _of_nodes
    for version in versions(plan):
        for rail in plan.common.rails:
            yield from make(plan, rail, version)


def versions(plan: Plan) -> list[int]:
    """The IP versions that rails have addresses of."""
    rail = plan.common.rails[0]
    return [version for version, cut in ((V4, rail.v4), (V6, rail.v6)) if cut is not None]


def wildcard(rail: RailPlan, version: int) -> str:
    """What matches a rail's pools of one IP version and nothing else: the dash keeps rail1 from rail10."""
    return pool_name(rail, version, "*")


def pool_name(rail: RailPlan, version: int, part: str) -> str:
    """The name of one of a rail's pools."""
    return f"{rail.network}-v{version}-{part}"


def addressed(plan: Plan, rail: int, version: int) -> Iterator[tuple[NodePlan, AddressPlan]]:
    """The nodes that have pod addresses on a rail, in order of slot."""
    for node in plan.nodes:
        port = node.find_port(rail)
        own = (port.v4 if version == V4 else port.v6) if port else None
        if own is not None and own.pods_count:
            yield node, own


def _shared(plan: Plan, rail: RailPlan, version: int) -> Iterator[Manifest]:
    held = list(addressed(plan, rail.rail, version))
    each = max(1, RECORDS // held[0][1].pods_count) if held else 1
    for number, nodes in groupby(held, key=lambda entry: entry[0].slot // each):
        members = [own for _, own in nodes]
        yield _pool(plan, rail, members, pool_name(rail, version, str(number)), first=rail.rail == 0)


def _of_nodes(plan: Plan, rail: RailPlan, version: int) -> Iterator[Manifest]:
    for node, own in addressed(plan, rail.rail, version):
        one = _pool(plan, rail, [own], pool_name(rail, version, node.name), first=node.ports[0].rail == rail.rail)
        one["spec"]["nodeName"] = [node.name]
        yield one


def _pool(plan: Plan, rail: RailPlan, members: list[AddressPlan], name: str, *, first: bool) -> Manifest:
    own = members[0]
    spec = without_none(
        ipVersion=own.version,
        subnet=str(own.subnet),
        ips=[_span(member) for member in members],
        gateway=format_address(own.version, own.gateway) if own.gateway else None,
        routes=_routes(plan, rail, own, first=first) or None,
    )
    return manifest(API, "SpiderIPPool", name, spec=spec)


def _span(own: AddressPlan) -> str:
    """The pods' part of a node's block, as Spiderpool writes ranges."""
    start, end = own.pods_first, own.pods_first + own.pods_count - 1
    low = format_address(own.version, start)
    return low if start == end else f"{low}-{format_address(own.version, end)}"


def _routes(plan: Plan, rail: RailPlan, own: AddressPlan, *, first: bool) -> list[dict[str, str]]:
    """Routes in the pod's main table: the rail by its gateway, and all rails by the first where rails are routed.

    Only one rail may carry the route to all rails, else sockets bound to no address would have eight equal ways.
    """
    if not own.gateway:
        return []
    cut = rail.v4 if own.version == V4 else rail.v6
    everything = plan.common.get_supernet(own.version) if first and plan.common.cross_rail == "routed" else None
    gateway = format_address(own.version, own.gateway)
    beyond = dict.fromkeys(wider for wider in (cut, everything) if wider is not None and wider != own.subnet)
    return [{"dst": str(found), "gw": gateway} for found in beyond]
