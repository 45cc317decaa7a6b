"""Scheme shared-subnet: the range of a rail is one subnet shared by the ports and pods of all nodes.

The subnet is divided into blocks of 1 + podAddresses addresses. Each node has one block: the first address is the
port's, the others are for pods. Three blocks are left unused: block 0 (network address), the gateway's, and that of the
broadcast address. Example: 10.0.0.0/16 with 15 pod addresses gives slot 0 the port 10.0.0.16 and the pods 10.0.0.17 to
10.0.0.31.
"""

from __future__ import annotations

from trackbed.fabric.model.addressing import SharedSubnet
from trackbed.fabric.model.rails import RailSpec
from trackbed.fabric.model.ranges import V4, Range
from trackbed.fabric.plan.plan import AddressPlan
from trackbed.fabric.plan.schemes.layout import RangeLayout


def build_layout(addressing: SharedSubnet, entry: RailSpec, rail_range: Range, nodes_per_unit: int) -> RangeLayout:  # noqa: ARG001 - the protocol's
    """Divide a subnet into blocks; `slots` is 0 or more."""
    block, gateway = 1 + addressing.pod_addresses, find_gateway(addressing, entry, rail_range)
    reserved = sorted({0, *((address - rail_range.base) // block for address in _list_reserved(rail_range, gateway))})
    block_count = rail_range.size // block
    reserved_blocks = [block_number for block_number in reserved if block_number < block_count]

    def compute_address(slot: int) -> AddressPlan:
        block_number = slot
        for reserved_block in reserved_blocks:
            block_number += block_number >= reserved_block
        first = rail_range.base + block_number * block
        return AddressPlan(
            rail_range.version, first, rail_range.prefix, gateway, first + 1 if block > 1 else 0, block - 1
        )

    return RangeLayout(block_count - len(reserved_blocks), compute_address)


def find_gateway(addressing: SharedSubnet, entry: RailSpec, rail_range: Range) -> int:
    """Return the gateway of a rail: its own entry, else the first or last usable address, else 0 for none."""
    configured = entry.gateway if rail_range.version == V4 else entry.gateway6
    if configured is not None:
        return configured
    last = rail_range.last - (rail_range.version == V4)
    return {"none": 0, "first": rail_range.base + 1, "last": last}[addressing.gateway]


def _list_reserved(rail_range: Range, gateway: int) -> list[int]:
    broadcast = [rail_range.last] if rail_range.version == V4 else []
    return broadcast + ([gateway] if gateway in rail_range else [])
