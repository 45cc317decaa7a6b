"""Ports of a plan as ends of paths, and what the Fabric plans for the path between two of them."""

from __future__ import annotations

from trackbed.fabric.model.check import RDMA_OVERHEAD_BYTES
from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.plan import CommonPlan, Plan
from trackbed.prove.rungs.rung import PathEnd, ProbedPath
from trackbed.prove.topology import FabricTopology


def list_ends(plan: Plan, topology: FabricTopology) -> dict[int, PathEnd]:
    """Return the end of a path for each port that has an address, by the topology's number of it."""
    ends = {}
    for index, node in enumerate(plan.nodes):
        for port in node.ports:
            if port.addresses:
                address = port.addresses[0]
                text = format_address(address.version, address.address)
                device = plan.common.rails[port.rail].rdma
                ends[index * topology.rails + port.rail] = PathEnd(node.name, port.rail, port.netdev, device, text)
    return ends


def build_path(
    common: CommonPlan, a: PathEnd, b: PathEnd, source_port: int | None = None, rate_gbps: float | None = None
) -> ProbedPath:
    """Return the path between two ends, with what the Fabric plans for it, and the rate of its ports."""
    is_isolated = a.rail != b.rail and common.cross_rail == "isolated"
    packet_bytes = min(common.mtu_bytes, common.path_mtu_bytes + RDMA_OVERHEAD_BYTES)
    if common.link_type == "infiniband":
        packet_bytes = common.mtu_bytes  # IP over InfiniBand has an MTU of its own
    return ProbedPath(
        a, b, packet_bytes, common.path_mtu_bytes, common.qos.traffic_class, is_isolated, source_port, rate_gbps
    )
