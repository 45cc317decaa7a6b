"""spiderpool: pools that never give an address twice, networks and policies that meet; and what it refuses."""

from __future__ import annotations

import ipaddress
import re
from fnmatch import fnmatch
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from tests.cluster.stacks.carried import carried, of_kind, refused
from tests.cluster.stacks.sites import (
    CX7,
    INFINIBAND,
    NODE_SUBNET,
    NONE,
    POINT_TO_POINT,
    SHARED,
    VFS,
    alike,
    ports,
    unlike,
)
from trackbed.cluster.stacks.objects import Manifest
from trackbed.cluster.stacks.spiderpool.attach import STACK
from trackbed.cluster.stacks.spiderpool.pools import MAX_POOL_ADDRESSES
from trackbed.fabric.plan.plan import Plan

DUAL = {"ipv6": "fd00:10::/32"}
TWO_NICS = [*alike(1, 2), {"hosts": "b0", "ports": ["0000:20:00.0", "0000:28:00.0"], "nic": "15b3:a2dc"}]


class Span(NamedTuple):
    """A range of a pool; addresses as ints."""

    version: int
    low: int
    high: int


def spans(pool: Manifest) -> list[Span]:
    parts = (span.partition("-") for span in pool["spec"]["ips"])
    result = [(ipaddress.ip_address(low), ipaddress.ip_address(high or low)) for low, _, high in parts]
    return [Span(low.version, int(low), int(high)) for low, high in result]


def networks(plan: Plan) -> list[dict[str, Any]]:
    manifests = of_kind(STACK, plan, "SpiderMultusConfig").values()
    return [manifest["spec"][manifest["spec"]["cniType"].replace("-", "")] for manifest in manifests]


@pytest.mark.parametrize("addressing", [SHARED, NODE_SUBNET, SHARED | DUAL, NODE_SUBNET | DUAL], ids=str)
def test_no_pool_deals_out_a_port_a_gateway_or_anothers_address(addressing: dict[str, str]) -> None:
    plan = carried(nodes=alike(40, 2), addressing=addressing, **VFS)
    ports = [(block.version, block.address) for node in plan.nodes for port in node.ports for block in port.addresses]
    pools = list(of_kind(STACK, plan, "SpiderIPPool").values())
    dealt = sorted(span for pool in pools for span in spans(pool))
    assert all(span.low <= span.high for span in dealt)
    assert all(a.high < b.low for a, b in pairwise(dealt) if a.version == b.version)
    assert not any(span.version == version and span.low <= at <= span.high for span in dealt for version, at in ports)
    for pool in pools:
        subnet = ipaddress.ip_network(pool["spec"]["subnet"])  # strict: no host bits, as the webhook demands
        first, last = int(subnet.network_address), int(subnet.broadcast_address)
        gateway = int(ipaddress.ip_address(pool["spec"]["gateway"]))
        assert first < gateway <= last
        assert all(
            first < span.low <= span.high <= last and not span.low <= gateway <= span.high for span in spans(pool)
        )


def test_a_rail_has_as_many_pools_as_its_records_need_and_a_slot_stays_in_its_own() -> None:
    few = of_kind(STACK, carried(nodes=alike(400, 2), addressing=SHARED, **VFS), "SpiderIPPool")
    many = of_kind(STACK, carried(nodes=alike(1000, 2), addressing=SHARED, **VFS), "SpiderIPPool")
    assert list(many)[:4] == ["rail0-v4-0", "rail0-v4-1", "rail0-v4-2", "rail0-v4-3"]
    assert max(sum(span.high - span.low + 1 for span in spans(pool)) for pool in many.values()) <= MAX_POOL_ADDRESSES
    assert few["rail0-v4-0"] == many["rail0-v4-0"]


def test_networks_take_all_pools_of_their_rail_and_no_others() -> None:
    plan = carried(rails=11, nodes=alike(4, 11), addressing=NODE_SUBNET | DUAL, **VFS)
    pools = of_kind(STACK, plan, "SpiderIPPool")
    for rail, network in enumerate(networks(plan)):
        for version in (4, 6):
            (wildcard,) = network["ippools"][f"ipv{version}"]
            wanted = [f"rail{rail}-v{version}-gpu-{node}" for node in range(4)]
            assert [name for name in pools if fnmatch(name, wildcard)] == wanted


def test_resource_policy_and_network_of_a_rail_meet() -> None:
    plan = carried(addressing=SHARED, vfs={"count": 8, "mtu": 4200})
    policies = of_kind(STACK, plan, "SriovNetworkNodePolicy")
    counted = [f"spidernet.io/{manifest['spec']['resourceName']}" for manifest in policies.values()]
    access = STACK.access(plan)
    assert counted == [name for name, _ in access.resources] == [fields["resourceName"] for fields in networks(plan)]
    assert [network.name for network in access.networks] == list(of_kind(STACK, plan, "SpiderMultusConfig"))
    assert {manifest["metadata"]["namespace"] for manifest in policies.values()} == {"spiderpool"}
    assert [fields["mtu"] for fields in networks(plan)] == [4200, 4200]
    assert access.hcas == ()  # a VF's device has a name that nobody knows beforehand


def test_the_resource_prefix_that_the_user_wrote_stays() -> None:
    plan = carried(addressing=SHARED, names={"resource": "acme.com/nic{rail}"}, **VFS)
    assert STACK.charts(plan)[0].values["sriov"]["resourcePrefix"] == "acme.com"
    assert networks(plan)[0]["resourceName"] == "acme.com/nic0"


def test_a_nodes_pool_is_pinned_to_it_and_the_subnet_is_checked_by_the_port() -> None:
    plan = carried(addressing=NODE_SUBNET, **VFS)
    pools = of_kind(STACK, plan, "SpiderIPPool")
    assert pools["rail1-v4-gpu-1"]["spec"]["nodeName"] == ["gpu-1"]
    assert [fields["ippools"]["matchMasterSubnet"] for fields in networks(plan)] == [True, True]
    shared = carried(addressing=SHARED, **VFS)
    assert all("nodeName" not in pool["spec"] for pool in of_kind(STACK, shared, "SpiderIPPool").values())


@pytest.mark.parametrize(
    ("routing", "first", "second"),
    [
        pytest.param("routed", ["10.0.0.0/13", "10.0.0.0/12"], ["10.8.0.0/13"], id="routed"),
        pytest.param("isolated", ["10.0.0.0/13"], ["10.8.0.0/13"], id="isolated"),
    ],
)
def test_only_the_first_rail_carries_the_route_to_all_rails(routing: str, first: list[str], second: list[str]) -> None:
    plan = carried(addressing=NODE_SUBNET, routing={"crossRail": routing}, **VFS)
    pools = of_kind(STACK, plan, "SpiderIPPool")
    for name, wanted in (("rail0-v4-gpu-1", first), ("rail1-v4-gpu-1", second)):
        spec = pools[name]["spec"]
        assert spec["routes"] == [{"dst": dst, "gw": spec["gateway"]} for dst in wanted]


def test_without_gateway_there_is_neither_gateway_nor_route() -> None:
    pools = of_kind(STACK, carried(addressing=SHARED | {"gateway": "none"}, **VFS), "SpiderIPPool")
    assert all(not {"gateway", "routes"} & set(pool["spec"]) for pool in pools.values())


@pytest.mark.parametrize(("mode", "isolated"), [("exclusive", True), ("shared", False)])
def test_rdma_devices_are_isolated_only_where_the_mode_lets_them(mode: str, isolated: bool) -> None:
    for link in ({}, INFINIBAND):
        plan = carried(addressing=SHARED, rdma={"namespaceMode": mode}, **VFS, **link)
        assert [fields["rdmaIsolation"] for fields in networks(plan)] == [isolated] * 2


def test_an_infiniband_partition_goes_by_ib_kubernetes() -> None:
    plan = carried(addressing=SHARED, kubernetes={"pkey": "0x8001"}, **VFS, **INFINIBAND)
    assert {(fields["pkey"], fields["enableIbKubernetes"]) for fields in networks(plan)} == {("0x1", True)}
    assert "pkey" not in networks(carried(addressing=SHARED, **VFS, **INFINIBAND))[0]


def test_infiniband_without_addresses_has_no_pools_and_no_ipam() -> None:
    plan = carried(addressing=NONE, **VFS, **INFINIBAND)
    assert of_kind(STACK, plan, "SpiderIPPool") == {}
    specs = [manifest["spec"] for manifest in of_kind(STACK, plan, "SpiderMultusConfig").values()]
    assert [item["disableIPAM"] for item in specs] == [True, True]
    assert refused(STACK, plan) == []


def test_macvlan_shares_the_ports_by_one_resource() -> None:
    plan = carried(addressing=SHARED)
    access = STACK.access(plan)
    assert [fields["master"] for fields in networks(plan)] == [["rail0"], ["rail1"]]
    assert {fields["rdmaResourceName"] for fields in networks(plan)} == {"spidernet.io/train"}
    assert access.resources == (("spidernet.io/train", 1),)
    assert [str(hca) for hca in access.hcas] == ["rail0:1:0", "rail1:1:1"]
    plugin = STACK.charts(plan)[0].values["rdma"]["rdmaSharedDevicePlugin"]
    (config,) = plugin["deviceConfig"]["configList"]
    assert f"{config['resourcePrefix']}/{config['resourceName']}" == "spidernet.io/train"
    assert (config["rdmaHcaMax"], config["selectors"]) == (500, {"ifNames": ["rail0", "rail1"]})


def test_macvlan_takes_unlike_and_unknown_nics_as_ports_are_selected_by_name() -> None:
    for nodes in (TWO_NICS, [{"hosts": "gpu-[0-1]", "ports": ports(2)}]):
        plan = carried(addressing=SHARED, nodes=nodes)
        assert refused(STACK, plan) == []
        (config,) = STACK.charts(plan)[0].values["rdma"]["rdmaSharedDevicePlugin"]["deviceConfig"]["configList"]
        assert config["selectors"] == {"ifNames": ["rail0", "rail1"]}


def test_policies_wait_for_no_webhook_whose_pods_need_a_control_plane_node() -> None:
    plan = carried(nodes=alike(2, 2), addressing=SHARED, **VFS)
    assert STACK.charts(plan)[0].values["sriov"]["operatorConfig"]["enableOperatorWebhook"] is False


def test_nodes_are_drained_a_few_at_once_before_they_get_vfs() -> None:
    plan = carried(nodes=alike(40, 2), addressing=SHARED, **VFS)
    config = STACK.charts(plan)[0].values["sriov"]["operatorConfig"]
    assert config["configDaemonNodeSelector"] == {"trackbed.dev/fabric": "train"}
    assert config["disableDrain"] is False
    (pool,) = of_kind(STACK, plan, "SriovNetworkPoolConfig").values()
    assert pool["spec"] == {
        "maxUnavailable": 4,
        "nodeSelector": {"matchLabels": {"trackbed.dev/fabric": "train"}},
    }  # rdmaMode is unknown to the chart's operator


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [({}, {"installCNI": True}), (VFS, {"installCNI": True}), (VFS | INFINIBAND, None)],
    ids=["macvlan", "sriov", "ib-sriov"],
)
def test_reference_plugins_are_installed_where_networks_call_them(
    spec: dict[str, Any], wanted: dict[str, bool] | None
) -> None:
    (chart,) = STACK.charts(carried(addressing=SHARED, **spec))
    assert chart.values.get("plugins") == wanted


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param({"addressing": SHARED}, (True, False), id="IPv4"),
        pytest.param({"addressing": SHARED | DUAL}, (True, True), id="both"),
        pytest.param({"addressing": NONE, **INFINIBAND}, (True, False), id="none, so that probes go to 127.0.0.1"),
    ],
)
def test_the_chart_deals_out_what_is_planned_and_from_pools_alone(
    spec: dict[str, Any], wanted: tuple[bool, bool]
) -> None:
    (chart,) = STACK.charts(carried(**spec, **VFS))
    ipam = chart.values["ipam"]
    assert (ipam["enableIPv4"], ipam["enableIPv6"]) == wanted
    assert ipam["spiderSubnet"] == {"enable": False}


def test_every_network_is_offered_to_the_pod_webhook_by_the_fabrics_name() -> None:
    manifests = of_kind(STACK, carried(addressing=SHARED, **VFS), "SpiderMultusConfig").values()
    assert {manifest["metadata"]["annotations"]["cni.spidernet.io/rdma-resource-inject"] for manifest in manifests} == {
        "train"
    }


def test_unlike_nodes_share_networks_and_pools() -> None:
    plan = carried(rails=8, nodes=unlike(), addressing=NODE_SUBNET, **VFS)
    assert refused(STACK, plan) == []
    assert len(of_kind(STACK, plan, "SpiderMultusConfig")) == 8
    assert len(of_kind(STACK, plan, "SpiderIPPool")) == 8 * 4
    assert all(re.fullmatch(r"rail\d", manifest) for manifest in of_kind(STACK, plan, "SriovNetworkNodePolicy"))


NAMED = [
    {"hosts": "a[0-1]", "ports": ["ens1", "ens2"], "nic": CX7},
    {"hosts": "b[0-1]", "ports": ["eth1", "eth2"], "nic": CX7},
]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"addressing": POINT_TO_POINT},
            "stack-scheme: a /31 has no address besides the port's and its leaf's, and Spiderpool deals addresses to "
            "VFs or macvlan interfaces beside the port: write scheme node-subnet, or choose "
            "network-operator-hostdevice, which moves the port itself",
            id="point-to-point",
        ),
        pytest.param(
            {"addressing": NONE, **VFS},
            "stack-scheme: RoCE needs IP addresses and scheme none plans none: write scheme shared-subnet or "
            "node-subnet",
            id="no addresses",
        ),
        pytest.param(
            {"addressing": NODE_SUBNET, **VFS, **INFINIBAND},
            "stack-scheme: scheme node-subnet needs leaves that route IP, InfiniBand switches do not: write scheme "
            "shared-subnet, or none where pods need no IP addresses",
            id="InfiniBand does not route",
        ),
        pytest.param(
            {"addressing": SHARED, **INFINIBAND},
            "stack-needs-vfs: no VFs are planned, and without them pods share ports by macvlan, which needs linkType "
            "ethernet and pods.mode macvlan; here are infiniband and macvlan: write vfs.count, for example 8",
            id="no VFs on InfiniBand",
        ),
        pytest.param(
            {"addressing": SHARED, "rdma": {"namespaceMode": "exclusive"}},
            "stack-rdma-mode: macvlan pods share the port's RDMA device, which needs RDMA namespace mode shared: leave "
            "out rdma.namespaceMode, or write vfs.count for devices of their own",
            id="macvlan and exclusive",
        ),
        pytest.param(
            {"addressing": SHARED, "nodes": NAMED},
            "stack-port-names: a macvlan network names a rail's port, and rail 0 is called ens1 here and eth1 there: "
            "write PCI or MAC addresses instead of names in ports, so that names.netdev holds on all nodes",
            id="macvlan and unlike names",
        ),
        pytest.param(
            {"addressing": SHARED | {"podAddresses": "0"}, **VFS},
            "stack-no-pod-addresses: rail 0 has no IPv4 addresses for pods, Spiderpool would have none to deal out: "
            "write addressing.podAddresses, 1 or more",
            id="no pod addresses",
        ),
    ],
)
def test_what_it_cannot_do_is_refused(spec: dict[str, Any], message: str) -> None:
    assert refused(STACK, carried(**spec)) == [message]
