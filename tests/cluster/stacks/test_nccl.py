"""NCCL's and UCX's variables: each follows from the plan, and is left out where it would be wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.stacks.fabrics import site
from tests.cluster.stacks.sites import NODE_SUBNET, NONE, SHARED
from trackbed.cluster.stacks.access import Hca
from trackbed.cluster.stacks.nccl import build_host_socket_ifname, build_variables
from trackbed.cluster.stacks.rails import list_port_hcas
from trackbed.fabric.plan.plan import Plan

TWO = [{"hosts": "gpu-[0-1]"}]
ISOLATED = SHARED | {"gateway": "none"}


def plan(rails: Any = 2, **fields: Any) -> Plan:
    return site(TWO, rails, **fields)


def test_a_routed_fabric_whose_devices_are_known() -> None:
    planned = plan()
    assert build_variables(planned, list_port_hcas(planned)) == {
        "NCCL_IB_HCA": "=rail0:1:0,rail1:1:1",
        "NCCL_SOCKET_IFNAME": "=eth0",
        "NCCL_IB_ADDR_FAMILY": "AF_INET",
        "NCCL_IB_ADDR_RANGE": "10.0.0.0/12",
        "NCCL_IB_TC": "104",
        "UCX_NET_DEVICES": "rail0:1,rail1:1",
        "UCX_IB_TRAFFIC_CLASS": "104",
        "UCX_IB_ROCE_REACHABILITY_MODE": "all",
    }


def test_isolated_rails_keep_rings_on_their_rail_and_connections_in_their_subnet() -> None:
    variables = build_variables(plan(addressing=ISOLATED), (), "=eno1")
    assert variables == {
        "NCCL_SOCKET_IFNAME": "=eno1",
        "NCCL_CROSS_NIC": "0",
        "NCCL_IB_SUBNET_AWARE_ROUTING": "1",
        "NCCL_IB_SUBNET_PREFIX_LEN": "13",
        "NCCL_IB_ADDR_FAMILY": "AF_INET",
        "NCCL_IB_ADDR_RANGE": "10.0.0.0/12",
        "NCCL_IB_TC": "104",
        "UCX_IB_TRAFFIC_CLASS": "104",
    }


WITHOUT: dict[str, tuple[dict[str, Any], set[str]]] = {
    "routed": ({}, {"NCCL_CROSS_NIC", "NCCL_IB_SUBNET_AWARE_ROUTING"}),
    "isolated flat rails": ({"addressing": ISOLATED}, {"UCX_IB_ROCE_REACHABILITY_MODE"}),
    "no addresses": (
        {"addressing": NONE},
        {"NCCL_IB_ADDR_RANGE", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_SUBNET_PREFIX_LEN", "UCX_IB_ROCE_REACHABILITY_MODE"},
    ),
    "infiniband": (
        {"linkType": "infiniband"},
        {"NCCL_IB_TC", "NCCL_IB_ADDR_RANGE", "NCCL_IB_SUBNET_AWARE_ROUTING", "UCX_IB_TRAFFIC_CLASS"},
    ),
    "rails of unlike lengths": (
        {
            "addressing": {"scheme": "shared-subnet"},
            "rails": [{"ipv4": "10.0.0.0/16"}, {"ipv4": "10.1.0.0/20"}],
        },
        {"NCCL_IB_SUBNET_AWARE_ROUTING", "NCCL_IB_SUBNET_PREFIX_LEN"},
    ),
    "any": ({}, {"NCCL_IB_GID_INDEX", "UCX_TLS", "NCCL_IB_DISABLE"}),
}


@pytest.mark.parametrize(("fields", "missing"), WITHOUT.values(), ids=WITHOUT)
def test_what_would_be_wrong_is_left_out(fields: dict[str, Any], missing: set[str]) -> None:
    assert missing & build_variables(plan(**fields), ()).keys() == set()


def test_devices_whose_names_are_unknown_beforehand_are_not_named() -> None:
    assert {"NCCL_IB_HCA", "UCX_NET_DEVICES"} & build_variables(plan(), ()).keys() == set()


def test_ipv6_alone_has_its_own_family() -> None:
    variables = build_variables(
        plan(addressing={"scheme": "node-subnet", "ipv6": "fd00:10::/32"}), [Hca("mlx5_0", 1, 0)]
    )
    assert (variables["NCCL_IB_ADDR_FAMILY"], variables["NCCL_IB_ADDR_RANGE"]) == ("AF_INET6", "fd00:10::/32")


def test_of_two_ip_versions_ipv4_is_taken() -> None:
    assert (
        build_variables(plan(addressing=NODE_SUBNET | {"ipv6": "fd00:10::/32"}), ())["NCCL_IB_ADDR_FAMILY"] == "AF_INET"
    )


def test_the_traffic_class_is_the_dscp_in_its_upper_six_bits() -> None:
    assert build_variables(plan(qos={"dscp": 24}), ())["NCCL_IB_TC"] == "96"


def test_on_hosts_every_port_of_every_node_is_kept_out_of_bootstrap() -> None:
    nodes = [{"hosts": "a", "ports": ["eno5", "eno6"]}, {"hosts": "b"}]
    assert build_host_socket_ifname(site(nodes, 2)) == "^=lo,docker0,eno5,eno6,rail0,rail1"
