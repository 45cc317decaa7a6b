"""Scheme point-to-point: a /31 for each node and rail (RFC 3021; IPv6 /127, RFC 6164); the host has the even address.

dense: the /31 of slot n starts at 2n. Example: rail range 172.18.0.0/15, slot 5: host 172.18.0.10, leaf 172.18.0.11.

spectrum-x-2tier: each unit has 256 addresses, so host h of unit u has 172.(16+2*rail).u.(2h). Example: with 32 nodes in
a unit, slot 37 is host 5 of unit 1: 172.18.1.10 on rail 1.

An IPv6 subnet may be wider (ipv6NodePrefix). Then the host has its first address after ::0, which all routers of a
subnet share (RFC 4291, 2.6.1), and the leaf the second. In layout spectrum-x-2tier each unit has 256 such subnets.
Example: rail 1 of fd02::/32 with rail ranges of /40, slot 37: host fd02:0:100:105::1/64, leaf ::2. NVIDIA's
k8s-launch-kit computes the same (`poolSettings`, RA2.3).

The address is the port's, and the pod's after the port has moved into it.
"""

from trackbed.fabric.model.addressing import PointToPoint
from trackbed.fabric.model.rails import RailSpec
from trackbed.fabric.model.ranges import BITS, V4, Range
from trackbed.fabric.plan.plan import AddressPlan, create_tuple
from trackbed.fabric.plan.schemes.layout import RangeLayout

UNIT_NUMBERS = 256
"""Numbers of a scalable unit in layout spectrum-x-2tier: addresses of /31s, or subnets that are wider."""
MAX_UNITS = 256
PAIR = 2
"""Addresses of a /31 or /127."""


def build_layout(addressing: PointToPoint, rail_spec: RailSpec, rail_range: Range, nodes_per_unit: int) -> RangeLayout:  # noqa: ARG001 - parameters of the Scheme protocol
    """Divide a range into a subnet for each node, consecutive or 256 numbers a unit."""
    version, base = rail_range.version, rail_range.base
    prefix, pods = BITS[version] - 1 if version == V4 else addressing.ipv6_node_prefix, addressing.pod_addresses
    size = 1 << (BITS[version] - prefix)
    first, unit_size = (base, UNIT_NUMBERS) if size == PAIR else (base + 1, UNIT_NUMBERS * size)

    def compute_dense(slot: int) -> AddressPlan:
        address = first + size * slot
        return create_tuple(AddressPlan, (version, address, prefix, address + 1, address * pods, pods))

    def compute_by_unit(slot: int) -> AddressPlan:
        address = first + slot // nodes_per_unit * unit_size + size * (slot % nodes_per_unit)
        return create_tuple(AddressPlan, (version, address, prefix, address + 1, address * pods, pods))

    if addressing.layout == "dense":
        return RangeLayout(rail_range.size // size, compute_dense)
    return RangeLayout(min(MAX_UNITS, rail_range.size // unit_size) * nodes_per_unit, compute_by_unit)
