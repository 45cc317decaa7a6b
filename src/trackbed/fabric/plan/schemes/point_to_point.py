"""Scheme point-to-point: a /31 for each node and rail (RFC 3021; IPv6 /127, RFC 6164); the host has the even address.

dense: the /31 of slot n starts at 2n. Example: rail range 172.18.0.0/15, slot 5: host 172.18.0.10, leaf 172.18.0.11.

spectrum-x-2tier: each unit has 256 addresses, so host h of unit u has 172.(16+2*rail).u.(2h). Example: with 32 nodes in
a unit, slot 37 is host 5 of unit 1: 172.18.1.10 on rail 1.

The address is the port's, and the pod's after the port has moved into it.
"""

from __future__ import annotations

from trackbed.fabric.model.addressing import PointToPoint
from trackbed.fabric.model.rails import RailSpec
from trackbed.fabric.model.ranges import BITS, Range
from trackbed.fabric.plan.plan import AddressPlan
from trackbed.fabric.plan.schemes.layout import RangeLayout

UNIT_ADDRESSES = 256
"""Addresses of a scalable unit in layout spectrum-x-2tier: one value of the third octet."""
MAX_UNITS = 256


def build_layout(addressing: PointToPoint, entry: RailSpec, rail_range: Range, nodes_per_unit: int) -> RangeLayout:  # noqa: ARG001 - the protocol's
    """Divide a range into /31s, consecutive or 256 addresses a unit."""
    prefix, pods = BITS[rail_range.version] - 1, addressing.pod_addresses

    def compute_dense(slot: int) -> AddressPlan:
        address = rail_range.base + 2 * slot
        return AddressPlan._make((rail_range.version, address, prefix, address + 1, address * pods, pods))

    def compute_by_unit(slot: int) -> AddressPlan:
        address = rail_range.base + slot // nodes_per_unit * UNIT_ADDRESSES + 2 * (slot % nodes_per_unit)
        return AddressPlan._make((rail_range.version, address, prefix, address + 1, address * pods, pods))

    if addressing.layout == "dense":
        return RangeLayout(rail_range.size // 2, compute_dense)
    return RangeLayout(min(MAX_UNITS, rail_range.size // UNIT_ADDRESSES) * nodes_per_unit, compute_by_unit)
