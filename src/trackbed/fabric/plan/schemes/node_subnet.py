"""Scheme node-subnet: the range of a rail is divided into one subnet for each node.

The n-th subnet belongs to slot n. Its first usable address is the gateway, the second the port, the others are for
pods. Example: 10.0.0.0/16 with /27 gives slot 1 the subnet 10.0.0.32/27: gateway .33, port .34, pods .35 to .62. The
IPAM must assign a pod an address from the subnet of its port, as Trackbed's own does.
"""

from trackbed.fabric.model.addressing import NodeSubnet
from trackbed.fabric.model.rails import RailSpec
from trackbed.fabric.model.ranges import BITS, V4, Range
from trackbed.fabric.plan.plan import AddressPlan, create_tuple
from trackbed.fabric.plan.schemes.layout import RangeLayout

MAX_PODS = 4096
"""Pod addresses of a node at most, even of an IPv6 /64: the agent keeps one bit for each."""


def build_layout(addressing: NodeSubnet, rail_spec: RailSpec, rail_range: Range, nodes_per_unit: int) -> RangeLayout:  # noqa: ARG001 - parameters of the Scheme protocol
    """Divide a range into subnets; `slots` is 0 if a node's subnet is larger than the range."""
    version, first = rail_range.version, rail_range.base
    prefix = addressing.ipv4_node_prefix if version == V4 else addressing.ipv6_node_prefix
    size = 1 << (BITS[version] - prefix)
    usable = size - 3 - (version == V4)
    pods = min(usable, MAX_PODS if addressing.pod_addresses is None else addressing.pod_addresses)

    def compute_address(slot: int) -> AddressPlan:
        base = first + slot * size
        return create_tuple(AddressPlan, (version, base + 2, prefix, base + 1, base + 3 if pods else 0, pods))

    return RangeLayout(rail_range.size // size, compute_address)
