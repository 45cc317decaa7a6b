"""Scheme point-to-point: a /31 for each node and rail (RFC 3021; IPv6 /127, RFC 6164); even the host, odd the leaf.

dense: the /31 of slot n begins at 2n. Example: rail range 172.18.0.0/15, slot 5: host 172.18.0.10, leaf 172.18.0.11.
spectrum-x-2tier: 256 addresses a unit, so unit u and host h have 172.(16+2*rail).u.(2h). Example: slot 37 with 32 nodes
in a unit is unit 1, host 5: 172.18.1.10 on rail 1.
The one address is the port's, and the pod's once the port has moved into it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.fabric.model.ranges import BITS
from trackbed.fabric.plan.plan import Addressed
from trackbed.fabric.plan.schemes import Layout

if TYPE_CHECKING:
    from trackbed.fabric.model.addressing import PointToPoint
    from trackbed.fabric.model.rails import Rail
    from trackbed.fabric.model.ranges import Range

UNIT_ADDRESSES = 256
"""Addresses of a scalable unit in layout spectrum-x-2tier: its third octet."""
MAX_UNITS = 256


def layout(addressing: PointToPoint, entry: Rail, cut: Range, nodes_per_unit: int) -> Layout:  # noqa: ARG001 - the protocol's
    """Deal out /31s, one after the other or 256 addresses a unit."""
    prefix, pods = BITS[cut.version] - 1, addressing.pod_addresses

    def dense(slot: int) -> Addressed:
        host = cut.base + 2 * slot
        return Addressed(cut.version, host, prefix, host + 1, host * pods, pods)

    def by_unit(slot: int) -> Addressed:
        host = cut.base + slot // nodes_per_unit * UNIT_ADDRESSES + 2 * (slot % nodes_per_unit)
        return Addressed(cut.version, host, prefix, host + 1, host * pods, pods)

    if addressing.layout == "dense":
        return Layout(cut.size // 2, dense)
    return Layout(min(MAX_UNITS, cut.size // UNIT_ADDRESSES) * nodes_per_unit, by_unit)
