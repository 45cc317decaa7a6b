"""Scheme shared-subnet: a rail's range is one subnet that ports and pods of all nodes share.

The subnet is cut into blocks of 1 + podAddresses addresses. A node has one block: its first address is the port's, the
rest are for pods. Block 0 (it holds the network address), the block of the gateway and the block of the broadcast
address are nobody's, so none of the three can be handed out. Example: 10.0.0.0/16 with 15 pod addresses gives slot 0
the port 10.0.0.16 and pods 10.0.0.17 to 10.0.0.31.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.fabric.model.ranges import V4
from trackbed.fabric.plan.plan import Addressed
from trackbed.fabric.plan.schemes import Layout

if TYPE_CHECKING:
    from trackbed.fabric.model.addressing import SharedSubnet
    from trackbed.fabric.model.rails import Rail
    from trackbed.fabric.model.ranges import Range


def layout(addressing: SharedSubnet, entry: Rail, cut: Range, nodes_per_unit: int) -> Layout:  # noqa: ARG001 - the protocol's
    """Deal out one subnet in blocks; `slots` is 0 or more."""
    block, gateway = 1 + addressing.pod_addresses, gateway_of(addressing, entry, cut)
    reserved = sorted({0, *((a - cut.base) // block for a in _nobodys(cut, gateway))})
    blocks = cut.size // block
    inside = [number for number in reserved if number < blocks]

    def at(slot: int) -> Addressed:
        number = slot
        for taken in inside:
            number += number >= taken
        first = cut.base + number * block
        return Addressed(cut.version, first, cut.prefix, gateway, first + 1 if block > 1 else 0, block - 1)

    return Layout(blocks - len(inside), at)


def gateway_of(addressing: SharedSubnet, entry: Rail, cut: Range) -> int:
    """The rail's gateway: its own entry, else the first or last usable address, else 0 for none."""
    own = entry.gateway if cut.version == V4 else entry.gateway6
    if own is not None:
        return own
    last = cut.last - (cut.version == V4)
    return {"none": 0, "first": cut.base + 1, "last": last}[addressing.gateway]


def _nobodys(cut: Range, gateway: int) -> list[int]:
    broadcast = [cut.last] if cut.version == V4 else []
    return broadcast + ([gateway] if gateway in cut else [])
