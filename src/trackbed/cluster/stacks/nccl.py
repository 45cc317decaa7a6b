"""Environment variables of NCCL and UCX that follow from the plan. Values that a library detects itself are not set.

Source: NCCL user guide, "Environment variables"; lists have the format that NCCL 2.30 parses. No GID index is set, as
it differs between pods; NCCL selects it by address family and range (since 2.21; in pods of mode macvlan, whose tables
have gaps, since 2.26.2).
"""

from collections.abc import Sequence

from trackbed.cluster.stacks.access import Hca
from trackbed.fabric.model.ranges import V4, V6
from trackbed.fabric.plan.plan import Plan

PRIMARY_INTERFACE = "=eth0"
"""NCCL_SOCKET_IFNAME for pods: the primary interface by its exact name, so that bootstrap never uses a rail."""


def build_variables(plan: Plan, hcas: Sequence[Hca], socket_ifname: str = PRIMARY_INTERFACE) -> dict[str, str]:
    """Return all variables of NCCL and UCX, name -> value.

    `hcas` are the RDMA devices by their names in the process's namespace, empty if these are unknown. `socket_ifname`
    is the value of NCCL_SOCKET_IFNAME; for hosts use `build_host_socket_ifname`.
    """
    return {
        **_build_nccl_device_variables(hcas),
        "NCCL_SOCKET_IFNAME": socket_ifname,
        **_build_cross_rail_variables(plan),
        **_build_gid_variables(plan),
        **_build_traffic_class_variables(plan),
        **_build_ucx_variables(plan, hcas),
    }


def compute_traffic_class(plan: Plan) -> int:
    """Return the IP traffic class of RDMA packets: the DSCP in the upper six bits (RFC 2474); the NIC sets ECN."""
    return plan.common.qos.dscp << 2


def build_host_socket_ifname(plan: Plan) -> str:
    """Return NCCL_SOCKET_IFNAME for hosts: all interfaces but rails, lo and docker0.

    The plan does not have the name of the host's primary interface.
    """
    rails = dict.fromkeys(port.netdev for node in plan.nodes for port in node.ports)
    return "^=" + ",".join(("lo", "docker0", *rails))


def build_hca_variables(hcas: Sequence[Hca]) -> dict[str, str]:
    """Return the variables that list RDMA devices, for a pod whose device names are known."""
    return _build_nccl_device_variables(hcas) | _build_ucx_device_variables(hcas)


def _build_nccl_device_variables(hcas: Sequence[Hca]) -> dict[str, str]:
    """Return NCCL_IB_HCA with exact names, as prefix rail1 would match rail10, and with rails, so rings keep to one."""
    return {"NCCL_IB_HCA": "=" + ",".join(map(str, hcas))} if hcas else {}


def _build_ucx_device_variables(hcas: Sequence[Hca]) -> dict[str, str]:
    return {"UCX_NET_DEVICES": ",".join(f"{hca.device}:{hca.port}" for hca in hcas)} if hcas else {}


def _build_cross_rail_variables(plan: Plan) -> dict[str, str]:
    """Return the variables by which NCCL keeps connections within a rail; empty unless rails are isolated."""
    if plan.common.cross_rail != "isolated":
        return {}
    variables = {"NCCL_CROSS_NIC": "0"}
    lengths = {rail.v4.prefix for rail in plan.common.rails if rail.v4}
    if _is_ethernet(plan) and len(lengths) == 1:
        variables |= {"NCCL_IB_SUBNET_AWARE_ROUTING": "1", "NCCL_IB_SUBNET_PREFIX_LEN": str(lengths.pop())}
    return variables


def _build_gid_variables(plan: Plan) -> dict[str, str]:
    """Return the address family and range by which NCCL selects the GID: IPv4 if planned, else IPv6."""
    if not _is_ethernet(plan):
        return {}
    for version, family in ((V4, "AF_INET"), (V6, "AF_INET6")):
        if (supernet := plan.common.get_supernet(version)) is not None:
            return {"NCCL_IB_ADDR_FAMILY": family, "NCCL_IB_ADDR_RANGE": str(supernet)}
    return {}


def _build_traffic_class_variables(plan: Plan) -> dict[str, str]:
    """Return NCCL_IB_TC, without which RoCE is sent in the lossy traffic class 0; empty on InfiniBand."""
    return {"NCCL_IB_TC": str(compute_traffic_class(plan))} if _is_ethernet(plan) else {}


def _build_ucx_variables(plan: Plan, hcas: Sequence[Hca]) -> dict[str, str]:
    """Return UCX's variables. On routed fabrics reachability is set to all, as UCX otherwise requires one subnet."""
    variables = _build_ucx_device_variables(hcas)
    if _is_ethernet(plan):
        variables["UCX_IB_TRAFFIC_CLASS"] = str(compute_traffic_class(plan))
        if plan.common.cross_rail == "routed" or plan.common.is_routed:
            variables["UCX_IB_ROCE_REACHABILITY_MODE"] = "all"
    return variables


def _is_ethernet(plan: Plan) -> bool:
    return plan.common.link_type == "ethernet"
