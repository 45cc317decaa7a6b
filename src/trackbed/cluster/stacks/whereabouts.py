"""Whereabouts: one list of addresses for the whole cluster, kept in the API server; no daemon deals addresses per node.

The ipam section of a rail's network gives exactly the planned pod addresses: from the first node's to the last node's,
without what lies between them (ports, slots that nobody has yet, the gateway). Without those exclusions the first pods
would get the addresses of ports. Every attachment takes one cluster-wide lease and walks the list, hence the limit.
Follows github.com/k8snetworkplumbingwg/whereabouts, doc/extended-configuration.md (v0.9); the Network Operator's
NicClusterPolicy installs it no more since 25.10, so it comes by its own chart.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address, summarize_address_range
from itertools import pairwise
from typing import Any

from trackbed.cluster.stacks.releases import release
from trackbed.cluster.stacks.stack import Chart
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.plan import AddressPlan, Plan, RailPlan

COMPONENT = "whereabouts"
NAMESPACE = "kube-system"
"""Where its chart puts it."""
MAX_NODES = 60
"""Above this, NVIDIA's field tools (netop-tools) advise NV-IPAM: all attachments of a cluster wait for one lease."""


def chart(plan: Plan) -> Chart:
    """Its Helm release; the chart is older than the program, so the image's tag is given."""
    return Chart(COMPONENT, NAMESPACE, {"image": {"tag": release(plan, COMPONENT).version}})


def ipam(plan: Plan, rail: RailPlan) -> dict[str, Any]:
    """The ipam section of a rail's network, of each planned IP version; the rail must have addresses for pods."""
    held = [_held(plan, rail.rail, version) for version in (4, 6)]
    ranges = [_range(blocks) for blocks in held if blocks]
    listed = ranges[0] if len(ranges) == 1 else {"ipRanges": ranges}
    routes = [route for blocks in held if blocks for route in _routes(plan, blocks[0])]
    return {"type": "whereabouts", **listed} | ({"routes": routes} if routes else {})


def refusals(plan: Plan) -> Iterator[Problem]:
    """Plans whose addresses one list cannot give, or that are too large for it."""
    if plan.common.scheme != "shared-subnet":
        message = (
            f"whereabouts knows no nodes, and scheme {plan.common.scheme} gives each node a subnet of its own: write "
            "ipam nv-ipam, or scheme shared-subnet"
        )
        yield Problem("whereabouts-scheme", message, ("spec", "kubernetes", "ipam"))
    elif plan.common.nodes > MAX_NODES:
        message = (
            f"whereabouts deals out addresses one at a time for the whole cluster, which is advised up to {MAX_NODES} "
            f"nodes, and here are {plan.common.nodes}: write ipam nv-ipam"
        )
        yield Problem("whereabouts-nodes", message, ("spec", "kubernetes", "ipam"))


def _held(plan: Plan, rail: int, version: int) -> list[AddressPlan]:
    """The blocks of the nodes on a rail, in order of address."""
    ports = (node.find_port(rail) for node in plan.nodes)
    found = [own for port in ports if port for own in port.addresses if own.version == version]
    return sorted(found, key=lambda own: own.address)


def _range(blocks: list[AddressPlan]) -> dict[str, Any]:
    version, last = blocks[0].version, blocks[-1]
    excluded = list(_excluded(blocks))
    return {
        "range": str(last.subnet),
        "range_start": format_address(version, blocks[0].pods_first),
        "range_end": format_address(version, last.pods_first + last.pods_count - 1),
    } | ({"exclude": excluded} if excluded else {})


def _excluded(blocks: list[AddressPlan]) -> Iterator[str]:
    """What lies between one node's pod addresses and the next one's, as the fewest ranges."""
    for before, own in pairwise(blocks):
        first, last = before.pods_first + before.pods_count, own.pods_first - 1
        gap = summarize_address_range(
            ip_address(format_address(own.version, first)), ip_address(format_address(own.version, last))
        )
        yield from map(str, gap)


def _routes(plan: Plan, own: AddressPlan) -> Iterator[dict[str, str]]:
    """The way to the other rails; each route names its gateway, since the section's own is of one IP version only."""
    beyond = plan.common.get_supernet(own.version)
    if own.gateway and beyond not in {None, own.subnet} and plan.common.cross_rail == "routed":
        yield {"dst": str(beyond), "gw": format_address(own.version, own.gateway)}
