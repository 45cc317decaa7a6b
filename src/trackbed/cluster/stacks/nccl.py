"""Variables of NCCL and UCX that follow from the plan, and only those: what a library finds by itself is left to it.

NCCL user guide, "Environment variables"; the forms of lists are those that NCCL 2.30 parses. A GID index is never set:
it differs from pod to pod, and NCCL takes the right one by family and range (since 2.21).
"""

from __future__ import annotations

from collections.abc import Sequence

from trackbed.cluster.stacks.access import Hca
from trackbed.fabric.plan.plan import Plan

PRIMARY = "=eth0"
"""The pod's primary interface, by its exact name: bootstrap must not die with a rail."""


def variables(plan: Plan, hcas: Sequence[Hca], bootstrap: str = PRIMARY) -> dict[str, str]:
    """Name -> value, in the order in which a person would read them.

    `hcas` are the RDMA devices as the process sees them, empty where their names are not known beforehand;
    `bootstrap` is NCCL_SOCKET_IFNAME, see `off_rails` for hosts.
    """
    return {
        **_nccl_devices(hcas),
        "NCCL_SOCKET_IFNAME": bootstrap,
        **_cross_rail(plan),
        **_addresses(plan),
        **_traffic_class(plan),
        **_ucx(plan, hcas),
    }


def traffic_class(plan: Plan) -> int:
    """The IP traffic class of RDMA: the DSCP in its upper six bits (RFC 2474), ECN left to the NIC."""
    return plan.common.qos.dscp << 2


def off_rails(plan: Plan) -> str:
    """NCCL_SOCKET_IFNAME on hosts, whose primary interface the plan does not know: none of those that cannot be it."""
    rails = dict.fromkeys(port.netdev for node in plan.nodes for port in node.ports)
    return "^=" + ",".join(("lo", "docker0", *rails))


def hca_variables(hcas: Sequence[Hca]) -> dict[str, str]:
    """The lists of devices alone, for who knows the devices of one pod."""
    return _nccl_devices(hcas) | _ucx_devices(hcas)


def _nccl_devices(hcas: Sequence[Hca]) -> dict[str, str]:
    """Exact names (without `=`, rail1 takes rail10 too), each with port and rail: rings then join equal rails only."""
    return {"NCCL_IB_HCA": "=" + ",".join(map(str, hcas))} if hcas else {}


def _ucx_devices(hcas: Sequence[Hca]) -> dict[str, str]:
    return {"UCX_NET_DEVICES": ",".join(f"{hca.device}:{hca.port}" for hca in hcas)} if hcas else {}


def _cross_rail(plan: Plan) -> dict[str, str]:
    """Isolated rails: rings keep to their rail, and a connection takes the NIC in its peer's subnet."""
    if plan.common.cross_rail != "isolated":
        return {}
    found = {"NCCL_CROSS_NIC": "0"}
    lengths = {rail.v4.prefix for rail in plan.common.rails if rail.v4}
    if _ethernet(plan) and len(lengths) == 1:
        found |= {"NCCL_IB_SUBNET_AWARE_ROUTING": "1", "NCCL_IB_SUBNET_PREFIX_LEN": str(lengths.pop())}
    return found


def _addresses(plan: Plan) -> dict[str, str]:
    """By which address the GID is taken; IPv4 where there is any."""
    if not _ethernet(plan):
        return {}
    for version, family in ((4, "AF_INET"), (6, "AF_INET6")):
        if (held := plan.common.get_supernet(version)) is not None:
            return {"NCCL_IB_ADDR_FAMILY": family, "NCCL_IB_ADDR_RANGE": str(held)}
    return {}


def _traffic_class(plan: Plan) -> dict[str, str]:
    """Without it RoCE rides in class 0, the lossy one. InfiniBand has service levels instead."""
    return {"NCCL_IB_TC": str(traffic_class(plan))} if _ethernet(plan) else {}


def _ucx(plan: Plan, hcas: Sequence[Hca]) -> dict[str, str]:
    """The same for UCX, which else takes peers in other subnets for unreachable."""
    found = _ucx_devices(hcas)
    if _ethernet(plan):
        found["UCX_IB_TRAFFIC_CLASS"] = str(traffic_class(plan))
        if plan.common.cross_rail == "routed" or plan.common.scheme in {"node-subnet", "point-to-point"}:
            found["UCX_IB_ROCE_REACHABILITY_MODE"] = "all"
    return found


def _ethernet(plan: Plan) -> bool:
    return plan.common.link_type == "ethernet"
