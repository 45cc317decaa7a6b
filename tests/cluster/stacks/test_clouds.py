"""What pods carry on clouds, and which Fabrics are none for them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.stacks.fabrics import site
from tests.cluster.stacks.sites import NONE, SHARED
from trackbed.cluster.stacks.clouds import aws_efa, azure, gke, oci
from trackbed.cluster.stacks.clouds.provider import UNSET_VARIABLES
from trackbed.cluster.stacks.install.bundle import render_bundle
from trackbed.cluster.stacks.nccl import build_variables
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.plan.plan import Plan

CLOUDS = {stack.name: stack for stack in (aws_efa.STACK, azure.STACK, gke.STACK, oci.STACK)}


def plan(rails: int, **fields: Any) -> Plan:
    return site([{"hosts": "n[0-1]", "gpus": 8}], rails, **{"addressing": NONE, **fields})


def cloud(name: str, rails: int) -> Plan:
    return plan(rails, linkType="infiniband") if name == "azure" else plan(rails)


def kept(stack_: Stack, planned: Plan) -> dict[str, str]:
    """The variables a job has in the end: general ones, the cloud's own in their place, empty ones gone."""
    access = stack_.access(planned)
    both = build_variables(planned, access.hcas) | dict(access.env)
    return {name: value for name, value in both.items() if value}


@pytest.mark.parametrize("name", CLOUDS)
def test_a_fabric_without_addresses_is_taken(name: str) -> None:
    assert list(CLOUDS[name].refusals(cloud(name, 8))) == []


REFUSED: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "addresses": (
        "aws-efa",
        {"addressing": SHARED},
        "stack-scheme",
        "scheme shared-subnet plans addresses, and this cloud deals its own; write scheme none",
    ),
    "vfs": (
        "oci",
        {"vfs": {"count": 4}},
        "stack-vfs",
        "VFs are the provider's affair on this cloud; write vfs.count 0, or leave vfs out",
    ),
    "ethernet on azure": (
        "azure",
        {},
        "stack-link-type",
        "the RDMA NICs of this cloud's machines are infiniband; write linkType infiniband",
    ),
    "infiniband on gke": (
        "gke",
        {"linkType": "infiniband"},
        "stack-link-type",
        "the RDMA NICs of this cloud's machines are ethernet; write linkType ethernet",
    ),
}


@pytest.mark.parametrize(("name", "fields", "code", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_a_clouds_is_refused(name: str, fields: dict[str, Any], code: str, message: str) -> None:
    (problem,) = CLOUDS[name].refusals(plan(8, **fields))
    assert (problem.code, problem.message) == (code, message)


def test_aws_counts_efa_devices_and_wants_huge_pages() -> None:
    access = aws_efa.STACK.access(plan(32))
    assert access.resources == (("vpc.amazonaws.com/efa", 32),)
    assert access.hugepages == (("hugepages-2Mi", "5120Mi"),)
    assert (access.networks, access.annotations) == ((), ())


def test_on_aws_no_verbs_variable_is_left() -> None:
    assert kept(aws_efa.STACK, plan(32)) == {"NCCL_SOCKET_IFNAME": "=eth0"}


def test_azure_tells_nccl_the_topology_and_keeps_ucx_off_infiniband() -> None:
    planned = cloud("azure", 8)
    assert azure.STACK.access(planned).resources == (("rdma/ib", 8),)
    assert kept(azure.STACK, planned) == {
        "NCCL_SOCKET_IFNAME": "=eth0",
        "NCCL_IB_HCA": "^=mlx5_8",
        "NCCL_TOPO_FILE": "/opt/microsoft/ndv5-topo.xml",
        "UCX_TLS": "tcp",
        "UCX_NET_DEVICES": "eth0",
    }


def test_gke_lists_a_network_for_each_rail_beside_the_default_one() -> None:
    access = gke.STACK.access(plan(8))
    annotations = dict(access.annotations)
    assert annotations["networking.gke.io/default-interface"] == "eth0"
    listed = json.loads(annotations["networking.gke.io/interfaces"])
    assert listed[:2] == [
        {"interfaceName": "eth0", "network": "default"},
        {"interfaceName": "eth2", "network": "rdma-0"},
    ]
    assert listed[-1] == {"interfaceName": "eth9", "network": "rdma-7"}
    assert [(host_path.path, host_path.mount, host_path.read_only) for host_path in access.host_paths] == [
        ("/home/kubernetes/bin/gib", "/usr/local/gib", True)
    ]


def test_gke_takes_the_networks_names_that_the_fabric_gives() -> None:
    annotations = dict(gke.STACK.access(plan(2, names={"network": "mrdma-{rail}"})).annotations)
    assert [item["network"] for item in json.loads(annotations["networking.gke.io/interfaces"])] == [
        "default",
        "mrdma-0",
        "mrdma-1",
    ]


def test_on_gke_nccl_is_left_to_gib() -> None:
    assert kept(gke.STACK, plan(8)) == {"NCCL_SOCKET_IFNAME": "=eth0"}


def test_oci_repeats_one_network_and_uses_oracles_traffic_class() -> None:
    planned = plan(16)
    access = oci.STACK.access(planned)
    assert {(network.namespace, network.name) for network in access.networks} == {("default", "rdma-vf")}
    assert [network.interface for network in access.networks] == [f"rail{rail}" for rail in range(16)]
    assert access.resources == (("nvidia.com/rdma-vf", 16),)
    assert access.privileged
    assert kept(oci.STACK, planned) == {
        "NCCL_SOCKET_IFNAME": "=eth0",
        "NCCL_IB_TC": "41",
        "NCCL_IB_QPS_PER_CONNECTION": "4",
        "NCCL_IB_SPLIT_DATA_ON_QPS": "0",
        "UCX_IB_TRAFFIC_CLASS": "41",
    }


def test_every_variable_that_a_plan_gives_is_decided_about() -> None:
    general: set[str] = set()
    for planned in (site([{"hosts": "a"}]), site([{"hosts": "a"}], addressing=SHARED | {"gateway": "none"})):
        general |= build_variables(planned, oci.STACK.access(planned).hcas).keys()
    assert general - {"NCCL_SOCKET_IFNAME"} <= {name for name, _ in UNSET_VARIABLES}


@pytest.mark.parametrize("name", CLOUDS)
def test_the_bundle_of_a_cloud_is_what_pods_carry(name: str) -> None:
    ((file, chunks),) = render_bundle(CLOUDS[name], cloud(name, 8))
    assert file == "README.txt"
    assert "A pod carries:" in "".join(chunks)
