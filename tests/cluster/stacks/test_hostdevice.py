"""network-operator-hostdevice: one port, one resource, one network, one pool a rail; and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.stacks.sites import NODE_SUBNET, POINT_TO_POINT, SHARED, SITES, alike, planned, unlike
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.objects import Manifest
from trackbed.cluster.stacks.stack import Wait, iter_objects
from trackbed.fabric.plan.plan import Plan

NAME = "network-operator-hostdevice"
STACK = load_stack(NAME)


RESOURCE = "k8s.v1.cni.cncf.io/resourceName"


def of_kind(plan: Plan, kind: str) -> list[Manifest]:
    return [manifest for manifest in iter_objects(STACK, plan) if manifest["kind"] == kind]


def plugins(network: Manifest) -> list[dict[str, Any]]:
    listing: list[dict[str, Any]] = json.loads(network["spec"]["config"])["plugins"]
    return listing


def test_resource_network_and_pool_of_a_rail_meet() -> None:
    plan = planned(NAME, alike(2, 2), 2)
    access = STACK.access(plan)
    (policy,) = of_kind(plan, "NicClusterPolicy")
    listed = json.loads(policy["spec"]["sriovDevicePlugin"]["config"])["resourceList"]
    counted = [f"{item['resourcePrefix']}/{item['resourceName']}" for item in listed]
    networks = of_kind(plan, "NetworkAttachmentDefinition")
    requested = [manifest["metadata"]["annotations"][RESOURCE] for manifest in networks]
    assert counted == [name for name, _ in access.resources] == requested
    assert [network.name for network in access.networks] == [manifest["metadata"]["name"] for manifest in networks]
    pools = [manifest["metadata"]["name"] for manifest in of_kind(plan, "CIDRPool")]
    assert pools == [plugins(manifest)[0]["ipam"]["poolName"] for manifest in networks]


def test_in_exclusive_mode_the_rdma_device_follows_its_port() -> None:
    plan = planned(NAME, alike(2, 2), 2)
    assert of_kind(plan, "HostDeviceNetwork") == []  # the operator renders it as host-device alone
    (network, _) = of_kind(plan, "NetworkAttachmentDefinition")
    assert [plugin["type"] for plugin in plugins(network)] == ["host-device", "rdma"]
    (daemon,) = of_kind(plan, "DaemonSet")  # the operator has no image of plugin rdma without its SR-IOV operator
    (container,) = daemon["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("nvcr.io/nvidia/mellanox/rdma-cni:")
    stages = [stage.name for stage in STACK.stages(plan)]
    assert stages.index("CNI plugins") < stages.index("networks")


def test_in_shared_mode_the_operators_own_network_suffices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SITES, NAME, SITES[NAME] | {"rdma": {"namespaceMode": "shared"}})
    plan = planned(NAME, alike(2, 2), 2)
    assert [manifest["spec"]["resourceName"] for manifest in of_kind(plan, "HostDeviceNetwork")] == [
        "nvidia.com/rail0",
        "nvidia.com/rail1",
    ]
    assert of_kind(plan, "NetworkAttachmentDefinition") == of_kind(plan, "DaemonSet") == []


def test_a_resource_prefix_of_ones_own_needs_an_attachment_as_the_operator_knows_nvidia_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = {"rdma": {"namespaceMode": "shared"}, "names": {"resource": "example.com/rail{rail}"}}
    monkeypatch.setitem(SITES, NAME, SITES[NAME] | fields)
    plan = planned(NAME, alike(2, 2), 2)
    assert of_kind(plan, "HostDeviceNetwork") == []  # its resource would be nvidia.com/example.com/rail0
    networks = of_kind(plan, "NetworkAttachmentDefinition")
    requested = [manifest["metadata"]["annotations"][RESOURCE] for manifest in networks]
    assert requested == [name for name, _ in STACK.access(plan).resources] == ["example.com/rail0", "example.com/rail1"]
    assert [plugin["type"] for plugin in plugins(networks[0])] == ["host-device"]


def test_a_pod_is_told_the_ports_own_rdma_devices() -> None:
    assert [str(hca) for hca in STACK.access(planned(NAME, alike(2, 2), 2)).hcas] == ["rail0:1:0", "rail1:1:1"]


def test_unlike_nodes_have_resource_lists_of_their_own() -> None:
    plan = planned(NAME, unlike(), 8)
    (policy,) = of_kind(plan, "NicClusterPolicy")
    assert "sriovDevicePlugin" not in policy["spec"]  # the operator's webhook refuses it in both
    first, second = of_kind(plan, "NicNodePolicy")
    addresses = [
        [
            entry["selectors"]["pciAddresses"]
            for entry in json.loads(item["spec"]["sriovDevicePlugin"]["config"])["resourceList"]
        ]
        for item in (first, second)
    ]
    assert addresses[0][1] == addresses[1][0] == ["0000:20:00.0"]
    assert second["spec"]["nodeSelector"] == {"trackbed.dev/fabric": "train", "trackbed.dev/group": "1"}


def test_the_device_plugin_of_each_group_is_waited_for() -> None:
    stage = next(stage for stage in STACK.stages(planned(NAME, unlike(), 8)) if stage.name == "operator")
    ready = "jsonpath={.status.state}=ready"
    assert stage.waits == tuple(
        Wait(resource, ready, timeout_seconds=1800)
        for resource in ("nicclusterpolicy/nic-cluster-policy", "nicnodepolicy/rails-0", "nicnodepolicy/rails-1")
    )


def test_nodes_of_one_kind_have_no_node_policy_to_wait_for() -> None:
    stage = next(stage for stage in STACK.stages(planned(NAME, alike(2, 2), 2)) if stage.name == "operator")
    assert [wait.resource for wait in stage.waits] == ["nicclusterpolicy/nic-cluster-policy"]


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
def test_the_last_stage_waits_until_labelled_nodes_offer_their_ports(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SITES, NAME, SITES[NAME] | {"rdma": {"namespaceMode": mode}})
    nodes = [*alike(2, 2), {"hosts": "small-0", "ports": [{"pci": "0000:11:00.0"}, None]}]
    *_, networks = STACK.stages(planned(NAME, nodes, 2))
    assert [(wait.resource, wait.condition) for wait in networks.waits] == [
        ("nodes --selector=trackbed.dev/fabric=train", r"jsonpath={.status.allocatable.nvidia\.com/rail0}=1"),
        (
            "nodes --selector=trackbed.dev/fabric=train,trackbed.dev/group=0",
            r"jsonpath={.status.allocatable.nvidia\.com/rail1}=1",
        ),
    ]


def test_both_ip_versions_have_a_pool_and_the_network_takes_both() -> None:
    plan = planned(NAME, alike(2, 2), 2, dual=True)
    pools = {manifest["metadata"]["name"]: manifest["spec"] for manifest in of_kind(plan, "CIDRPool")}
    assert list(pools) == ["rail0", "rail1", "rail0-ipv6", "rail1-ipv6"]
    assert pools["rail1-ipv6"]["perNodeNetworkPrefix"] == 127
    assert pools["rail1-ipv6"]["staticAllocations"][1] == {
        "gateway": "fd00:10:8000::3",
        "nodeName": "gpu-1",
        "prefix": "fd00:10:8000::2/127",
    }
    network = of_kind(plan, "NetworkAttachmentDefinition")[0]
    assert plugins(network)[0]["ipam"]["poolName"] == "rail0,rail0-ipv6"


P2P = {"addressing": POINT_TO_POINT}
MANY = {**P2P, "nodesPerUnit": 128}
OLD = {**P2P, "kubernetes": {"versions": {"nvidia-network-operator": "v26.1.2"}}}


@pytest.mark.parametrize(
    ("site", "nodes", "message"),
    [
        pytest.param(
            {"addressing": SHARED},
            alike(2, 8),
            "scheme shared-subnet is for ports that pods share, this stack hands the ports themselves to pods; write "
            "scheme point-to-point, or take network-operator-sriov or network-operator-macvlan",
            id="shared subnet",
        ),
        pytest.param(
            {"addressing": NODE_SUBNET},
            alike(2, 8),
            "scheme node-subnet is for ports that pods share, this stack hands the ports themselves to pods; write "
            "scheme point-to-point, or take network-operator-sriov or network-operator-macvlan",
            id="node subnet",
        ),
        pytest.param(
            {**P2P, "linkType": "infiniband"},
            alike(2, 8),
            "this stack is for Ethernet; see network-operator-ib-sriov",
            id="InfiniBand",
        ),
        pytest.param(
            OLD,
            unlike(),
            "nvidia-network-operator v26.1.2 has one resource list for all nodes, and these nodes have their ports at "
            "different addresses; take v26.4.0 or newer, which has NicNodePolicy",
            id="unlike nodes before NicNodePolicy",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    site: dict[str, Any], nodes: list[dict[str, Any]], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SITES, NAME, site)
    assert [problem.message for problem in STACK.refusals(planned(NAME, nodes, 8))] == [message]


def test_a_pool_for_more_nodes_than_etcd_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SITES, NAME, MANY)
    assert list(STACK.refusals(planned(NAME, alike(8000, 1), 1))) == []
    (problem,) = STACK.refusals(planned(NAME, alike(12_500, 1), 1))
    assert problem.message.startswith(
        "CIDRPool 'rail0' with 12500 entries would take 2.2 MB with its status; etcd takes"
    )
