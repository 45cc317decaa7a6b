"""The stacks on NVIDIA's Network Operator that share or split ports: VFs, macvlan, IPoIB, InfiniBand VFs."""

from __future__ import annotations

import json
import re
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from tests.cluster.stacks.fabric_of import DUAL, FLAT, NONE, SHARED, fabric, named, of_kind, one, problems
from tests.cluster.stacks.sites import unlike
from trackbed.cluster.stacks.network_operator.ib_sriov import STACK as IB_SRIOV
from trackbed.cluster.stacks.network_operator.ipoib import STACK as IPOIB
from trackbed.cluster.stacks.network_operator.macvlan import STACK as MACVLAN
from trackbed.cluster.stacks.network_operator.sriov import STACK as SRIOV
from trackbed.cluster.stacks.stack import Stack, iter_objects
from trackbed.fabric.plan.plan import Plan

VFS: dict[str, Any] = {"vfs": {"count": 8}}
IB: dict[str, Any] = {"linkType": "infiniband"}
SHARING: dict[str, Any] = {"rdma": {"namespaceMode": "shared"}}
WHEREABOUTS: dict[str, Any] = {"kubernetes": {"ipam": "whereabouts"}}
PKEY: dict[str, Any] = {"kubernetes": {"pkey": "0x8001"}}


def whereabouts(plan: Plan) -> dict[str, Any]:
    payload: dict[str, Any] = json.loads(one(SRIOV, plan, "SriovNetwork")["spec"]["ipam"])
    return payload


# --- VFs on Ethernet


def test_policy_network_node_and_pod_call_a_rails_resource_alike() -> None:
    plan = fabric(addressing=SHARED, **VFS)
    policies = of_kind(SRIOV, plan, "SriovNetworkNodePolicy")
    networks = of_kind(SRIOV, plan, "SriovNetwork")
    inside = SRIOV.charts(plan)[0].values["sriov-network-operator"]["operator"]["resourcePrefix"]
    waited = [
        wait.condition for stage in SRIOV.stages(plan) for wait in stage.waits if wait.resource.startswith("nodes")
    ]
    carried = SRIOV.access(plan)
    assert [manifest["spec"]["resourceName"] for manifest in policies] == ["rail0", "rail1"]
    assert [manifest["spec"]["resourceName"] for manifest in networks] == ["rail0", "rail1"]
    assert carried.resources == ((f"{inside}/rail0", 1), (f"{inside}/rail1", 1))
    assert waited == 2 * [f"jsonpath={{.status.allocatable.nvidia\\.com/rail{rail}}}=8" for rail in (0, 1)]
    assert [(network.namespace, network.name) for network in carried.networks] == [
        (manifest["spec"]["networkNamespace"], manifest["metadata"]["name"]) for manifest in networks
    ]


def test_a_written_prefix_reaches_the_operator_and_the_pod() -> None:
    plan = fabric(addressing=SHARED, names={"resource": "rdma.example.com/nic{number}"}, **VFS)
    inside = SRIOV.charts(plan)[0].values["sriov-network-operator"]["operator"]["resourcePrefix"]
    assert inside == "rdma.example.com"
    assert SRIOV.access(plan).resources[0] == ("rdma.example.com/nic1", 1)


def test_a_vf_has_its_own_mtu_and_never_a_larger_one_than_its_port() -> None:
    plan = fabric(addressing=SHARED, vfs={"count": 8, "mtu": 4200})
    assert one(SRIOV, plan, "SriovNetworkNodePolicy")["spec"]["mtu"] == 4200
    assert one(SRIOV, fabric(addressing=SHARED, **VFS), "SriovNetworkNodePolicy")["spec"]["mtu"] == 9000


@pytest.mark.parametrize(
    ("fields", "types"),
    [
        (SHARING, ["tuning", "sbr"]),
        ({**SHARING, "routing": {"crossRail": "isolated"}}, ["tuning"]),
        ({}, ["rdma", "tuning", "sbr"]),
    ],
    ids=["shared, routed", "isolated", "exclusive"],
)
def test_the_plugins_after_the_vf_follow_namespace_mode_and_routing(fields: dict[str, Any], types: list[str]) -> None:
    plan = fabric(addressing=SHARED, **VFS, **fields)
    written = one(SRIOV, plan, "SriovNetwork")["spec"]["metaPlugins"]
    assert [plugin["type"] for plugin in json.loads(f"[{written}]")] == types


@pytest.mark.parametrize(("fields", "mode"), [(SHARING, "shared"), ({}, "exclusive")])
def test_the_rdma_mode_of_the_plan_is_the_nodes(fields: dict[str, Any], mode: str) -> None:
    plan = fabric(addressing=SHARED, **VFS, **fields)
    assert one(SRIOV, plan, "SriovNetworkPoolConfig")["spec"]["rdmaMode"] == mode


@pytest.mark.parametrize(("nodes", "at_once"), [(2, 1), (19, 1), (20, 2), (640, 64)])
def test_a_tenth_of_the_nodes_is_drained_at_once_and_never_none(nodes: int, at_once: int) -> None:
    plan = fabric(nodes=nodes, addressing=SHARED, **VFS)
    assert one(SRIOV, plan, "SriovNetworkPoolConfig")["spec"]["maxUnavailable"] == at_once


def test_unlike_nodes_with_names_from_the_plan_need_one_policy_a_rail() -> None:
    plan = fabric(8, unlike(), addressing=SHARED, **VFS)
    policies = of_kind(SRIOV, plan, "SriovNetworkNodePolicy")
    assert [manifest["spec"]["nicSelector"]["pfNames"] for manifest in policies] == [
        [f"rail{rail}"] for rail in range(8)
    ]
    assert policies[0]["spec"]["nodeSelector"] == {"trackbed.dev/fabric": "train"}


def test_nodes_that_call_their_ports_differently_have_a_policy_for_each_kind_and_one_resource() -> None:
    plan = fabric(nodes=[named("ens", "a-[0-1]"), named("eth", "b-[0-1]")], addressing=SHARED, **VFS)
    policies = [
        manifest
        for manifest in of_kind(SRIOV, plan, "SriovNetworkNodePolicy")
        if manifest["spec"]["resourceName"] == "rail1"
    ]
    assert [
        (
            manifest["metadata"]["name"],
            manifest["spec"]["nicSelector"]["pfNames"],
            manifest["spec"]["nodeSelector"]["trackbed.dev/group"],
        )
        for manifest in policies
    ] == [("rail1-g0", ["ens1"], "0"), ("rail1-g1", ["eth1"], "1")]


def test_both_ip_versions_are_asked_of_nv_ipam_together() -> None:
    plan = fabric(addressing=DUAL, **VFS)
    pools = {manifest["metadata"]["name"] for manifest in of_kind(SRIOV, plan, "IPPool")}
    assert set(json.loads(one(SRIOV, plan, "SriovNetwork")["spec"]["ipam"])["poolName"].split(",")) < pools


# --- Whereabouts


def test_whereabouts_gives_exactly_the_planned_pod_addresses() -> None:
    gap: list[dict[str, Any]] = [{"hosts": "a-[0-2]"}, {"hosts": "z-0", "unit": 3}]
    plan = fabric(nodes=gap, addressing=SHARED, nodesPerUnit=4, **VFS, **WHEREABOUTS)
    ipam = whereabouts(plan)
    first, last = (int(ip_address(ipam[key])) for key in ("range_start", "range_end"))
    excluded = {int(address) for text in ipam["exclude"] for address in ip_network(text)}
    ports = [block for node in plan.nodes if (port := node.find_port(0)) for block in port.addresses]
    planned = {block.pods_first + index for block in ports for index in range(block.pods_count)}
    assert set(range(first, last + 1)) - excluded == planned
    assert excluded.isdisjoint(planned)


def test_whereabouts_names_both_ip_versions_and_the_gateway_of_each_route() -> None:
    ipam = whereabouts(fabric(addressing=DUAL, **VFS, **WHEREABOUTS))
    assert [entry["range"] for entry in ipam["ipRanges"]] == ["10.0.0.0/13", "fd00:10::/64"]
    assert ipam["routes"] == [
        {"dst": "10.0.0.0/12", "gw": "10.7.255.254"},
        {"dst": "fd00:10::/32", "gw": "fd00:10::ffff:ffff:ffff:ffff"},
    ]


def test_whereabouts_gives_no_route_that_is_the_rails_own_subnet() -> None:
    assert "routes" not in whereabouts(fabric(1, addressing=SHARED, **VFS, **WHEREABOUTS))


def test_whereabouts_is_installed_by_its_own_chart_and_nv_ipam_is_left_out() -> None:
    plan = fabric(addressing=SHARED, **VFS, **WHEREABOUTS)
    assert [chart.component for chart in SRIOV.charts(plan)] == ["nvidia-network-operator", "whereabouts"]
    assert "nvIpam" not in one(SRIOV, plan, "NicClusterPolicy")["spec"]
    assert of_kind(SRIOV, plan, "IPPool") == []


# --- shared ports


@pytest.mark.parametrize(
    ("stack", "kind", "spec"),
    [
        (MACVLAN, "MacvlanNetwork", {"addressing": SHARED}),
        (IPOIB, "IPoIBNetwork", {"addressing": FLAT, **IB}),
    ],
    ids=["macvlan", "ipoib"],
)
def test_the_shared_resource_is_the_port_that_the_network_is_on(stack: Stack, kind: str, spec: dict[str, Any]) -> None:
    plan = fabric(**spec)
    plugin = one(stack, plan, "NicClusterPolicy")["spec"]["rdmaSharedDevicePlugin"]
    listed = json.loads(plugin["config"])["configList"]
    assert [entry["selectors"]["ifNames"] for entry in listed] == [
        [manifest["spec"]["master"]] for manifest in of_kind(stack, plan, kind)
    ]
    assert stack.access(plan).resources == tuple(
        (f"{entry['resourcePrefix']}/{entry['resourceName']}", 1) for entry in listed
    )
    assert [str(hca) for hca in stack.access(plan).hcas] == ["rail0:1:0", "rail1:1:1"]


@pytest.mark.parametrize(("pods", "shares"), [(3, 3), (63, 63), (255, 63)])
def test_as_many_pods_share_a_port_as_have_addresses(pods: int, shares: int) -> None:
    plan = fabric(addressing=SHARED | {"podAddresses": pods})
    config = json.loads(one(MACVLAN, plan, "NicClusterPolicy")["spec"]["rdmaSharedDevicePlugin"]["config"])
    assert {entry["rdmaHcaMax"] for entry in config["configList"]} == {shares}


def test_unlike_nodes_with_names_from_the_plan_share_one_macvlan_network_a_rail() -> None:
    plan = fabric(8, unlike(), addressing=SHARED)
    assert problems(MACVLAN, plan) == []
    assert [manifest["spec"]["master"] for manifest in of_kind(MACVLAN, plan, "MacvlanNetwork")] == [
        f"rail{rail}" for rail in range(8)
    ]


# --- VFs on InfiniBand


def test_a_partition_stands_where_ib_kubernetes_reads_it() -> None:
    plan = fabric(addressing=NONE, **IB, **VFS, **PKEY)
    network = one(IB_SRIOV, plan, "NetworkAttachmentDefinition")
    config = json.loads(network["spec"]["config"])
    assert (config["type"], config["pkey"], config["ibKubernetesEnabled"]) == ("ib-sriov", "0x1", True)
    assert network["metadata"]["annotations"] == {"k8s.v1.cni.cncf.io/resourceName": "nvidia.com/rail0"}
    assert one(IB_SRIOV, plan, "NicClusterPolicy")["spec"]["ibKubernetes"]["ufmSecret"] == "ib-kubernetes-ufm-secret"
    assert of_kind(IB_SRIOV, plan, "SriovIBNetwork") == []


def test_without_a_partition_the_operators_own_network_suffices() -> None:
    plan = fabric(addressing=NONE, **IB, **VFS, **SHARING)
    assert one(IB_SRIOV, plan, "SriovIBNetwork")["spec"] == {
        "networkNamespace": "default",
        "resourceName": "rail0",
        "linkState": "enable",
    }
    assert "ibKubernetes" not in one(IB_SRIOV, plan, "NicClusterPolicy")["spec"]
    assert one(IB_SRIOV, plan, "SriovNetworkNodePolicy")["spec"]["linkType"] == "ib"


@pytest.mark.parametrize(("fields", "isolated"), [(SHARING, False), ({}, True)], ids=["shared", "exclusive"])
def test_the_ib_plugin_moves_the_rdma_device_itself_where_a_partition_is_given(
    fields: dict[str, Any], isolated: bool
) -> None:
    plan = fabric(addressing=NONE, **IB, **VFS, **PKEY, **fields)
    config = json.loads(one(IB_SRIOV, plan, "NetworkAttachmentDefinition")["spec"]["config"])
    assert config["rdmaIsolation"] is isolated
    assert "plugins" not in config


def test_no_password_and_no_secret_are_rendered() -> None:
    plan = fabric(addressing=NONE, **IB, **VFS, **PKEY)
    assert of_kind(IB_SRIOV, plan, "Secret") == []
    assert not re.search(r"(?i)password", json.dumps(list(iter_objects(IB_SRIOV, plan))))
    assert any("--from-file=ufm" in need and "UFM_CERTIFICATE" in need for need in IB_SRIOV.needs)
