"""Whereabouts: an IPAM with one list of allocated addresses for the whole cluster, in the API server.

The ipam section of a rail's network covers exactly the planned pod addresses: from those of the first node to those of
the last, excluding ports, unused slots and the gateway between them. Without these exclusions the first pods would get
the addresses of ports. Each attachment takes a cluster-wide lease and walks the list, which limits the number of nodes.
Whereabouts is installed by its own chart, as the Network Operator's NicClusterPolicy has not installed it since 25.10.
Follows github.com/k8snetworkplumbingwg/whereabouts, doc/extended-configuration.md (v0.9).
"""

from collections.abc import Iterator
from ipaddress import ip_address, summarize_address_range
from itertools import pairwise
from typing import Any

from trackbed.cluster.stacks.rails import iter_address_blocks
from trackbed.cluster.stacks.releases import choose_release
from trackbed.cluster.stacks.stack import Chart
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import V4, V6, format_address
from trackbed.fabric.plan.plan import AddressPlan, Plan, RailPlan

COMPONENT = "whereabouts"
NAMESPACE = "kube-system"
"""Namespace of Whereabouts' upstream manifests."""
MAX_NODES = 60
"""Largest number of nodes, as all attachments share one lease; NVIDIA's netop-tools recommend NV-IPAM above it."""


def build_chart(plan: Plan) -> Chart:
    """Return the chart of Whereabouts with the image's tag, as the chart's default tag is older."""
    return Chart(COMPONENT, NAMESPACE, {"image": {"tag": choose_release(plan, COMPONENT).version}})


def build_ipam(plan: Plan, rail: RailPlan) -> dict[str, Any]:
    """Return the ipam section of a rail's CNI configuration for all planned IP versions; it must have pod addresses."""
    blocks_by_version = [_list_address_blocks(plan, rail.rail, version) for version in (V4, V6)]
    ranges = [_build_ipam_range(blocks) for blocks in blocks_by_version if blocks]
    range_fields = ranges[0] if len(ranges) == 1 else {"ipRanges": ranges}
    routes = [route for blocks in blocks_by_version if blocks for route in _iter_routes(plan, blocks[0])]
    return {"type": "whereabouts", **range_fields} | ({"routes": routes} if routes else {})


def find_refusals(plan: Plan) -> Iterator[Problem]:
    """Yield a problem if nodes have their own subnets, or if the fabric has too many nodes."""
    if not plan.common.has_shared_subnets:
        yield Problem(
            "whereabouts-scheme",
            f"whereabouts knows no nodes, and scheme {plan.common.scheme} gives each node a subnet of its own: write "
            "ipam nv-ipam, or scheme shared-subnet",
            ("spec", "kubernetes", "ipam"),
        )
    if plan.common.nodes > MAX_NODES:
        yield Problem(
            "whereabouts-nodes",
            f"whereabouts deals out addresses one at a time for the whole cluster, which is advised up to {MAX_NODES} "
            f"nodes, and here are {plan.common.nodes}: write ipam nv-ipam",
            ("spec", "kubernetes", "ipam"),
        )


def _list_address_blocks(plan: Plan, rail_number: int, ip_version: int) -> list[AddressPlan]:
    """Return the address blocks of all nodes on a rail, in order of address."""
    return sorted(
        (block for _, block in iter_address_blocks(plan, rail_number, ip_version)), key=lambda block: block.address
    )


def _build_ipam_range(blocks: list[AddressPlan]) -> dict[str, Any]:
    version, last = blocks[0].version, blocks[-1]
    exclusions = list(_iter_exclusions(blocks))
    return {
        "range": str(last.subnet),
        "range_start": format_address(version, blocks[0].pods_first),
        "range_end": format_address(version, last.pods_first + last.pods_count - 1),
    } | ({"exclude": exclusions} if exclusions else {})


def _iter_exclusions(blocks: list[AddressPlan]) -> Iterator[str]:
    """Yield the fewest CIDR ranges that cover the addresses between the pods of a node and those of the next node."""
    for previous, block in pairwise(blocks):
        first, last = previous.pods_first + previous.pods_count, block.pods_first - 1
        gap = summarize_address_range(
            ip_address(format_address(block.version, first)), ip_address(format_address(block.version, last))
        )
        yield from map(str, gap)


def _iter_routes(plan: Plan, block: AddressPlan) -> Iterator[dict[str, str]]:
    """Yield the route to the other rails, if they are routed, with its own gateway.

    The section's `gateway` field can hold the gateway of a single IP version only.
    """
    supernet = plan.common.get_supernet(block.version)
    if block.gateway and supernet not in {None, block.subnet} and plan.common.cross_rail == "routed":
        yield {"dst": str(supernet), "gw": format_address(block.version, block.gateway)}
