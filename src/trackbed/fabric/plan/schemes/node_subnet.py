"""Scheme node-subnet: a rail's range is cut into one subnet for each node.

The n-th subnet belongs to slot n. In it the first usable address is the gateway, the second the port, the rest are for
pods. Example: 10.0.0.0/16 with /27 gives slot 1 the subnet 10.0.0.32/27: gateway .33, port .34, pods .35 to .62.
The IPAM must give a pod an address from the subnet of the port it is on; Trackbed's does, by construction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.fabric.model.ranges import BITS, V4
from trackbed.fabric.plan.plan import Addressed
from trackbed.fabric.plan.schemes import Layout

if TYPE_CHECKING:
    from trackbed.fabric.model.addressing import NodeSubnet
    from trackbed.fabric.model.rails import Rail
    from trackbed.fabric.model.ranges import Range

MAX_PODS = 4096
"""Even an IPv6 /64 gives a node no more: the agent keeps a bit for each."""


def layout(addressing: NodeSubnet, entry: Rail, cut: Range, nodes_per_unit: int) -> Layout:  # noqa: ARG001 - the protocol's
    """Deal out subnets; no slots where a node's subnet is larger than the rail's range."""
    prefix = addressing.ipv4_node_prefix if cut.version == V4 else addressing.ipv6_node_prefix
    size = 1 << (BITS[cut.version] - prefix)
    left = size - 3 - (cut.version == V4)
    pods = min(left, MAX_PODS if addressing.pod_addresses is None else addressing.pod_addresses)

    def at(slot: int) -> Addressed:
        base = cut.base + slot * size
        return Addressed(cut.version, base + 2, prefix, base + 1, base + 3 if pods else 0, pods)

    return Layout(cut.size // size, at)
