"""dranet and dra-sriov: a named request a rail, told by attributes that the devices have; and what they refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.stacks.carried import carried, of_kind, refused
from tests.cluster.stacks.sites import CX7, INFINIBAND, NODE_SUBNET, NONE, POINT_TO_POINT, SHARED, VFS, alike, unlike
from trackbed.cluster.stacks.access import Claim
from trackbed.cluster.stacks.dra.dranet import STACK as DRANET
from trackbed.cluster.stacks.dra.sriov import STACK as SRIOV
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.plan.plan import Plan

MOVED = {"addressing": POINT_TO_POINT}
VIRTUAL = {"addressing": SHARED, **VFS, "rdma": {"namespaceMode": "shared"}}
BOTH = pytest.mark.parametrize(("stack", "site"), [(DRANET, MOVED), (SRIOV, VIRTUAL)], ids=["dranet", "dra-sriov"])


def devices(stack: Stack, plan: Plan, suffix: str = "") -> dict[str, Any]:
    template = of_kind(stack, plan, "ResourceClaimTemplate")[f"train-rails{suffix}"]
    result: dict[str, Any] = template["spec"]["spec"]["devices"]
    return result


def expressions(stack: Stack, plan: Plan) -> list[str]:
    return [request["exactly"]["selectors"][0]["cel"]["expression"] for request in devices(stack, plan)["requests"]]


@BOTH
def test_a_pods_claim_names_the_template_and_the_template_the_class(stack: Stack, site: dict[str, Any]) -> None:
    plan = carried(**site, kubernetes={"namespace": "training"})
    templates = of_kind(stack, plan, "ResourceClaimTemplate")
    assert stack.access(plan).claims == (Claim("rails", "train-rails", "training", ("train-rails-gpus",)),)
    assert not stack.access(plan).networks
    assert not stack.access(plan).resources
    assert {manifest["metadata"]["namespace"] for manifest in templates.values()} == {"training"}
    requests = devices(stack, plan)["requests"]
    assert [request["name"] for request in requests] == ["rail0", "rail1"]
    classes = of_kind(stack, plan, "DeviceClass")
    assert {request["exactly"]["deviceClassName"] for request in requests} == set(classes) == {"train-rails"}


@BOTH
def test_no_test_reads_an_attribute_that_a_device_may_lack(stack: Stack, site: dict[str, Any]) -> None:
    plan = carried(**site)
    (manifests,) = of_kind(stack, plan, "DeviceClass").values()
    for test in [*expressions(stack, plan), manifests["spec"]["selectors"][0]["cel"]["expression"]]:
        read = test.split(" && ")[-1].partition(" ")[0]
        assert f"has({read}) && " in test  # an unknown field stops the allocation of the whole pod


@BOTH
@pytest.mark.parametrize(
    ("rails", "gpus", "requests", "constraints"),
    [
        pytest.param(2, 2, {"gpu0": 1, "gpu1": 1}, [["rail0", "gpu0"], ["rail1", "gpu1"]], id="one each"),
        pytest.param(2, 8, {"gpu0": 4, "gpu1": 4}, [["rail0", "gpu0"], ["rail1", "gpu1"]], id="four a port"),
        pytest.param(4, 2, {"gpu0": 1, "gpu1": 1}, [["rail0", "rail1", "gpu0"], ["rail2", "rail3", "gpu1"]], id="two"),
    ],
)
def test_gpus_are_tied_to_their_rails(  # noqa: PLR0913, PLR0917 - a table's columns
    stack: Stack, site: dict[str, Any], rails: int, gpus: int, requests: dict[str, int], constraints: list[list[str]]
) -> None:
    plan = carried(rails=rails, nodes=[alike(2, rails)[0] | {"gpus": gpus}], **site)
    claim = devices(stack, plan, "-gpus")
    assert {request["name"]: request["exactly"]["count"] for request in claim["requests"][rails:]} == requests
    assert [request["requests"] for request in claim["constraints"]] == constraints
    assert {constraint["matchAttribute"] for constraint in claim["constraints"]} == {"resource.kubernetes.io/pcieRoot"}


@BOTH
def test_there_is_no_template_with_gpus_where_nodes_have_unlike_ones(stack: Stack, site: dict[str, Any]) -> None:
    nodes = unlike()
    nodes[1]["gpus"] = 4
    manifests = of_kind(stack, carried(rails=8, nodes=nodes, **site), "ResourceClaimTemplate")
    assert list(manifests) == ["train-rails", *(f"train-rail{rail}" for rail in range(8))]
    assert stack.access(carried(rails=8, nodes=nodes, **site)).claims == (Claim("rails", "train-rails", "default"),)


@BOTH
@pytest.mark.parametrize(("rails", "templates"), [(16, 2), (17, 1), (32, 1)])
def test_a_claim_never_asks_for_more_devices_than_it_may(
    stack: Stack, site: dict[str, Any], rails: int, templates: int
) -> None:
    wide = {"scheme": site["addressing"]["scheme"], "ipv4": "10.0.0.0/10"}
    plan = carried(rails=rails, nodes=[{"hosts": "gpu-[0-1]"}], **{**site, "addressing": wide})
    manifests = of_kind(stack, plan, "ResourceClaimTemplate")
    assert len([name for name in manifests if name in {"train-rails", "train-rails-gpus"}]) == templates
    assert len(manifests) == templates + rails
    assert refused(stack, plan) == []


def test_dranet_tells_ports_by_the_name_that_hosts_give_them() -> None:
    for nodes in (alike(2, 8), unlike()):
        first, *_ = expressions(DRANET, carried(rails=8, nodes=nodes, **MOVED))
        assert first == 'has(device.attributes["dra.net"].ifName) && device.attributes["dra.net"].ifName == "rail0"'


def test_dranet_takes_any_of_the_names_where_nodes_keep_their_own() -> None:
    nodes = [{"hosts": "a0", "ports": ["ens1", "ens2"]}, {"hosts": "b0", "ports": ["eth1", "eth2"]}]
    assert expressions(DRANET, carried(rails=2, nodes=nodes, **MOVED))[1].endswith('.ifName in ["ens2", "eth2"]')


def test_dranet_tells_infiniband_ports_by_pci_address() -> None:
    plan = carried(addressing=NONE, pods={"mode": "move"}, **INFINIBAND)
    assert expressions(DRANET, plan)[1].endswith('.pciAddress == "0000:20:00.0"')
    assert "config" not in devices(DRANET, plan)  # DRANET takes no settings for devices without netdev


def test_dranet_asks_again_for_what_the_kernel_forgets_in_the_move() -> None:
    assert devices(DRANET, carried(**MOVED))["config"] == [
        {"opaque": {"driver": "dra.net", "parameters": {"interface": {"arpIgnore": 1, "arpAnnounce": 2}}}}
    ]


def test_dranet_names_interfaces_where_the_fabric_names_them_for_pods() -> None:
    config = devices(DRANET, carried(**MOVED, names={"pod": "net{number}"}))["config"]
    assert [item["requests"] for item in config] == [["rail0"], ["rail1"]]
    interfaces = [item["opaque"]["parameters"]["interface"] for item in config]
    assert interfaces == [{"name": name, "arpIgnore": 1, "arpAnnounce": 2} for name in ("net1", "net2")]


def test_a_pod_on_dranet_is_told_the_ports_own_rdma_devices() -> None:
    assert [str(hca) for hca in DRANET.access(carried(**MOVED)).hcas] == ["rail0:1:0", "rail1:1:1"]


def test_a_vf_gets_the_attributes_that_claims_ask_for() -> None:
    plan = carried(**VIRTUAL)
    attributes = of_kind(SRIOV, plan, "DeviceAttributes")
    (policy,) = of_kind(SRIOV, plan, "SriovResourcePolicy").values()
    for rail, config in enumerate(policy["spec"]["configs"]):
        chosen = config["deviceAttributesSelector"]["matchLabels"].items()
        (result,) = [manifest for manifest in attributes.values() if chosen <= manifest["metadata"]["labels"].items()]
        assert result["spec"]["attributes"]["trackbed.dev/rail"] == {"int": rail}
        assert expressions(SRIOV, plan)[rail].endswith(f'device.attributes["trackbed.dev"].rail == {rail}')
    namespaces = {manifest["metadata"]["namespace"] for manifest in [policy, *attributes.values()]}
    assert namespaces == {SRIOV.charts(plan)[-1].namespace}  # the driver reads no other


def test_the_driver_runs_on_tainted_nodes_of_the_fabric() -> None:
    charts = {chart.component: chart.values for chart in SRIOV.charts(carried(**VIRTUAL))}
    plugin = charts["dra-driver-sriov"]["kubeletPlugin"]
    assert (plugin["nodeSelector"], plugin["tolerations"]) == (
        {"trackbed.dev/fabric": "train"},
        [{"operator": "Exists"}],
    )


def test_unlike_nodes_have_policies_of_their_own() -> None:
    policies = of_kind(SRIOV, carried(rails=8, nodes=unlike(), **VIRTUAL), "SriovResourcePolicy")
    filters = [
        manifest["spec"]["configs"][index]["resourceFilters"]
        for manifest, index in zip(policies.values(), (1, 0), strict=True)
    ]
    assert filters == [[{"pfPciAddresses": ["0000:20:00.0"]}]] * 2
    selected = [
        manifest["spec"]["nodeSelector"]["nodeSelectorTerms"][0]["matchExpressions"][1]
        for manifest in policies.values()
    ]
    assert [item["values"] for item in selected] == [["0"], ["1"]]


def test_each_vf_config_names_its_request_its_network_and_its_interface() -> None:
    plan = carried(**VIRTUAL, names={"network": "net-{rail}"})
    claim = devices(SRIOV, plan)["config"]
    assert [request["requests"] for request in claim] == [["rail0"], ["rail1"]]
    parameters = [item["opaque"]["parameters"] for item in claim]
    assert [item["ifName"] for item in parameters] == ["rail0", "rail1"]
    renamed = devices(SRIOV, carried(**VIRTUAL, names={"pod": "net{number}"}))["config"]
    assert [item["opaque"]["parameters"]["ifName"] for item in renamed] == ["net1", "net2"]
    assert [manifest["netAttachDefName"] for manifest in parameters] == list(
        of_kind(SRIOV, plan, "NetworkAttachmentDefinition")
    )


@pytest.mark.parametrize(
    ("site", "plugin"),
    [
        pytest.param({}, "sriov", id="Ethernet"),
        pytest.param({"routing": {"crossRail": "isolated"}}, "sriov", id="isolated"),
        pytest.param({**INFINIBAND, "rdma": {"namespaceMode": "exclusive"}}, "ib-sriov", id="InfiniBand"),
    ],
)
def test_the_network_is_one_plugin_and_that_is_on_the_nodes(site: dict[str, Any], plugin: str) -> None:
    plan = carried(**VIRTUAL | site)
    config = json.loads(of_kind(SRIOV, plan, "NetworkAttachmentDefinition")["rail0"]["spec"]["config"])
    assert config["type"] == plugin
    assert "plugins" not in config  # libcni: "error parsing configuration: missing 'type'"
    assert config["ipam"] == {"type": "nv-ipam", "poolName": "rail0"}
    (installer,) = of_kind(SRIOV, plan, "DaemonSet").values()
    images = [manifest["name"] for manifest in installer["spec"]["template"]["spec"]["containers"]]
    assert images == [f"{plugin}-cni"]


def test_both_ip_versions_have_a_pool_and_the_network_takes_both() -> None:
    plan = carried(**VIRTUAL | {"addressing": NODE_SUBNET | {"ipv6": "fd00:10::/32"}})
    config = json.loads(of_kind(SRIOV, plan, "NetworkAttachmentDefinition")["rail1"]["spec"]["config"])
    assert config["ipam"]["poolName"].split(",") == ["rail1", "rail1-ipv6"]
    assert {"rail1", "rail1-ipv6"} < set(of_kind(SRIOV, plan, "CIDRPool"))


@pytest.mark.parametrize(
    ("kubernetes", "sections"),
    [
        pytest.param({}, {"nvIpam"}, id="NV-IPAM"),
        pytest.param({"ipam": "whereabouts", "driver": "container"}, {"ofedDriver"}, id="driver"),
        pytest.param({"ipam": "whereabouts"}, None, id="nothing"),
    ],
)
def test_the_operator_deploys_what_the_driver_lacks_and_no_multus(
    kubernetes: dict[str, Any], sections: set[str] | None
) -> None:
    policies = of_kind(SRIOV, carried(**VIRTUAL, kubernetes=kubernetes), "NicClusterPolicy")
    deployed = [set(policy["spec"]) - {"nodeAffinity"} for policy in policies.values()]
    assert deployed == ([sections] if sections else [])


SWAPPED = [
    {"hosts": "a0", "ports": ["ens1", "ens2"], "nic": CX7},
    {"hosts": "b0", "ports": ["ens2", "ens1"], "nic": CX7},
]


@pytest.mark.parametrize(
    ("stack", "spec", "message"),
    [
        pytest.param(
            DRANET,
            {"addressing": SHARED},
            "stack-pod-mode: DRANET moves the ports themselves into pods, pods.mode macvlan leaves them on the host: "
            "write pods.mode move, or choose dra-sriov for VFs",
            id="dranet, ports that stay",
        ),
        pytest.param(
            DRANET,
            {**MOVED, "nodes": SWAPPED},
            "stack-ambiguous-port: ens1 is rail 0 on some nodes and rail 1 on others, and one claim holds for all "
            "nodes: let names.netdev name the ports (give PCI or MAC addresses in ports, not names)",
            id="dranet, one name for two rails",
        ),
        pytest.param(
            DRANET,
            {
                "addressing": {"scheme": "point-to-point", "ipv4": "10.0.0.0/10"},
                "rails": 33,
                "nodes": [{"hosts": "a0"}],
            },
            "stack-too-many-rails: a claim may get 32 devices and this fabric has 33 rails: choose a stack without "
            "claims",
            id="dranet, 33 rails",
        ),
        pytest.param(
            SRIOV,
            {"addressing": SHARED},
            "stack-needs-vfs: this stack gives VFs to pods and the Fabric plans none: write vfs.count, for example 8",
            id="dra-sriov, no VFs",
        ),
        pytest.param(
            SRIOV,
            VIRTUAL | {"rdma": {"namespaceMode": "exclusive"}},
            "stack-rdma-mode: the driver runs one CNI plugin for a VF, sriov, which leaves the VF's RDMA device on the "
            "host: write rdma.namespaceMode shared, or choose network-operator-sriov",
            id="dra-sriov, exclusive",
        ),
        pytest.param(
            SRIOV,
            {**VIRTUAL, **INFINIBAND, "kubernetes": {"pkey": "0x8001"}},
            "stack-pkey: nothing makes a VF that a claim gives out a member of an InfiniBand partition: leave out "
            "pkey, or choose network-operator-ib-sriov or spiderpool",
            id="dra-sriov, partition",
        ),
        pytest.param(
            SRIOV,
            VIRTUAL | {"addressing": POINT_TO_POINT},
            "stack-scheme: a /31 has no address for a VF beside the port's: write scheme node-subnet, or choose "
            "dranet, which moves the port itself",
            id="dra-sriov, point-to-point",
        ),
        pytest.param(
            SRIOV,
            VIRTUAL | {"addressing": NONE},
            "stack-scheme: RoCE needs IP addresses and scheme none plans none: write scheme shared-subnet or "
            "node-subnet",
            id="dra-sriov, no addresses",
        ),
        pytest.param(
            SRIOV,
            {"addressing": NODE_SUBNET, **VFS, **INFINIBAND},
            "stack-scheme: scheme node-subnet needs leaves that route IP, InfiniBand switches do not: write scheme "
            "shared-subnet, or none where pods need no IP addresses",
            id="dra-sriov, InfiniBand does not route",
        ),
    ],
)
def test_what_they_cannot_do_is_refused(stack: Stack, spec: dict[str, Any], message: str) -> None:
    assert refused(stack, carried(**spec)) == [message]
