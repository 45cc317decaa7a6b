"""Scheme shared-subnet: the range of a rail is one subnet shared by the ports and pods of all nodes.

The subnet is divided into blocks of 1 + podAddresses addresses. Each node has one block: the first address is the
port's, the others are for pods. Three blocks are left unused: block 0 (network address), the gateway's, and that of the
broadcast address. Example: 10.0.0.0/16 with 15 pod addresses gives slot 0 the port 10.0.0.16 and the pods 10.0.0.17 to
10.0.0.31.
"""

from trackbed.fabric.model.addressing import SharedSubnet
from trackbed.fabric.model.rails import RailSpec
from trackbed.fabric.model.ranges import V4, Range
from trackbed.fabric.plan.plan import AddressPlan, create_tuple
from trackbed.fabric.plan.schemes.layout import RangeLayout


def build_layout(addressing: SharedSubnet, rail_spec: RailSpec, rail_range: Range, nodes_per_unit: int) -> RangeLayout:  # noqa: ARG001 - parameters of the Scheme protocol
    """Divide a subnet into blocks; `slots` is 0 if no block fits."""
    block, gateway = 1 + addressing.pod_addresses, find_gateway(addressing, rail_spec, rail_range)
    reserved = sorted(
        {0, *((address - rail_range.base) // block for address in _list_reserved_addresses(rail_range, gateway))}
    )
    block_count = rail_range.size // block
    reserved_blocks = [block_number for block_number in reserved if block_number < block_count]
    version, base, prefix = rail_range

    def compute_address(slot: int) -> AddressPlan:
        block_number = slot
        for reserved_block in reserved_blocks:
            if block_number >= reserved_block:
                block_number += 1
        first = base + block_number * block
        return create_tuple(AddressPlan, (version, first, prefix, gateway, first + 1 if block > 1 else 0, block - 1))

    return RangeLayout(block_count - len(reserved_blocks), compute_address)


def find_gateway(addressing: SharedSubnet, rail_spec: RailSpec, rail_range: Range) -> int:
    """Return a rail's gateway: the configured address, else the first or last usable address, or 0 for no gateway."""
    configured = rail_spec.gateway if rail_range.version == V4 else rail_spec.gateway6
    if configured is not None:
        return configured
    last = rail_range.last - (rail_range.version == V4)
    return {"none": 0, "first": rail_range.base + 1, "last": last}[addressing.gateway]


def _list_reserved_addresses(rail_range: Range, gateway: int) -> list[int]:
    broadcast = [rail_range.last] if rail_range.version == V4 else []
    return broadcast + ([gateway] if gateway in rail_range else [])
