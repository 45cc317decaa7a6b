"""spectrum-x: rails, networks, resources and pools of one name; and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.stacks.carried import carried, of_kind, refused
from tests.cluster.stacks.sites import INFINIBAND, NODE_SUBNET, POINT_TO_POINT, VFS, unlike
from trackbed.cluster.stacks.spectrum_x import STACK
from trackbed.fabric.plan.plan import Plan

SITE: dict[str, Any] = {"addressing": POINT_TO_POINT, "vfs": {"count": 1}}


def topology(plan: Plan) -> list[dict[str, Any]]:
    (manifest,) = of_kind(STACK, plan, "SpectrumXRailPoolConfig").values()
    rails: list[dict[str, Any]] = manifest["spec"]["railTopology"]
    return rails


def test_rail_pool_network_and_resource_have_one_name() -> None:
    plan = carried(**SITE, names={"network": "r{number}"})
    access = STACK.access(plan)
    names = [entry["name"] for entry in topology(plan)]
    assert names == ["r1", "r2"] == [entry["cidrPoolRef"] for entry in topology(plan)]
    assert list(of_kind(STACK, plan, "CIDRPool")) == names == [network.name for network in access.networks]
    assert access.resources == (("nvidia.com/r1", 1), ("nvidia.com/r2", 1))
    assert [str(hca) for hca in access.hcas] == [
        "rdma_r1:1:0",
        "rdma_r2:1:1",
    ]  # as the operator's rdma plugin names them


def test_the_device_plugin_counts_what_pods_ask_for() -> None:
    plan = carried(**SITE, names={"resource": "acme.com/rail{rail}"})
    (manifest,) = of_kind(STACK, plan, "SpectrumXRailPoolConfig").values()
    assert manifest["spec"]["draEnabled"] is False
    assert STACK.charts(plan)[0].values["sriov-network-operator"]["operator"] == {"resourcePrefix": "acme.com"}
    assert STACK.access(plan).resources[0] == ("acme.com/rail0", 1)


def test_the_sriov_operators_daemon_runs_on_the_fabrics_nodes_and_leaves_firmware_alone() -> None:
    config = STACK.charts(carried(**SITE))[0].values["sriov-network-operator"]["sriovOperatorConfig"]
    assert config["configDaemonNodeSelector"] == {"trackbed.dev/fabric": "train"}
    assert config["disablePlugins"] == ["mellanox"]


def test_a_rail_has_one_port_name_also_where_nodes_are_unlike() -> None:
    plan = carried(rails=8, nodes=unlike(), **SITE)  # two names would mean two planes
    assert [entry["nicSelector"]["pfNames"] for entry in topology(plan)] == [[f"rail{rail}"] for rail in range(8)]
    assert refused(STACK, plan) == []


@pytest.mark.parametrize(
    ("ranges", "wanted"),
    [
        pytest.param({"ipv6": "fd00::/32"}, {"cidrPoolRef": "rail0"}, id="IPv6 alone"),
        pytest.param({"ipv4": "10.0.0.0/12", "ipv6": "fd00::/32"}, "rail0,rail0-ipv6", id="both"),
    ],
)
def test_pools_of_both_ip_versions_are_said_as_a_whole_ipam_section(
    ranges: dict[str, str], wanted: dict[str, str] | str
) -> None:
    first, _ = topology(carried(**SITE | {"addressing": {"scheme": "point-to-point", **ranges}}))
    output = {key: value for key, value in first.items() if key in {"cidrPoolRef", "ipam"}}
    if isinstance(wanted, str):
        (text,) = output.values()
        assert json.loads(text) == {"type": "nv-ipam", "poolName": wanted, "poolType": "cidrpool"}
    else:
        assert output == wanted


def test_a_64_of_ipv6_for_each_port_is_a_pool_as_upstream_lays_it_out() -> None:
    addressing = {"scheme": "point-to-point", "layout": "spectrum-x-2tier", "ipv6NodePrefix": 64}
    plan = carried(**SITE | {"addressing": addressing | {"ipv6": "fd02::/32", "ipv6RailPrefix": 40}})
    spec = of_kind(STACK, plan, "CIDRPool")["rail1-ipv6"]["spec"]
    assert (spec["cidr"], spec["perNodeNetworkPrefix"], spec["gatewayIndex"]) == ("fd02:0:100::/40", 64, 2)
    assert [route["dst"] for route in spec["routes"]] == ["fd02:0:100::/40", "fd02::/32"]
    first = spec["staticAllocations"][0]
    assert (first["prefix"], first["gateway"]) == ("fd02:0:100::/64", "fd02:0:100::2")
    assert refused(STACK, plan) == []


NAMED = [{"hosts": "a0", "ports": ["ens1", "ens2"]}, {"hosts": "b0", "ports": ["eth1", "eth2"]}]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            INFINIBAND,
            "stack-link-type: Spectrum-X is Ethernet: choose network-operator-ib-sriov for InfiniBand",
            id="InfiniBand",
        ),
        pytest.param(
            {"addressing": NODE_SUBNET, "pods": {"mode": "move"}},
            "stack-scheme: Spectrum-X routes to the host, scheme node-subnet does not: write scheme point-to-point, or "
            "choose network-operator-sriov",
            id="another scheme",
        ),
        pytest.param(
            {"rdma": {"namespaceMode": "shared"}},
            "stack-rdma-mode: the operator sets RDMA namespace mode exclusive: leave out rdma.namespaceMode",
            id="shared mode",
        ),
        pytest.param(
            {"vfs": {"count": 0}},
            "stack-needs-vfs: Spectrum-X gives pods a VF of each rail: write vfs.count 1",
            id="no VFs",
        ),
        pytest.param(
            VFS,
            "stack-vf-count: a /31 has one address for pods, 8 VFs would wait for it, and Spectrum-X profiles of NICs "
            "want one VF: write vfs.count 1",
            id="8 VFs",
        ),
        pytest.param(
            {"vfs": {"count": 1, "mtu": 4200}},
            "stack-vf-mtu: the operator gives VF and port one MTU, here are 4200 and 9000: leave out vfs.mtu",
            id="VF with an MTU of its own",
        ),
        pytest.param(
            {"names": {"network": "rail-{rail}"}},
            "stack-network-name: the operator makes of a rail's name a resource and a VRF, and 'rail-0' cannot be "
            "both: write names.network with lower case letters and digits, 15 at most, for example rail{rail}",
            id="a dash in the name",
        ),
        pytest.param(
            {"kubernetes": {"versions": {"nvidia-network-operator": "v26.1.2"}}},
            "stack-version: nvidia-network-operator v26.1.2 has no v1alpha2 of SpectrumXRailPoolConfig: take v26.4.0 "
            "or newer",
            id="an old operator",
        ),
        pytest.param(
            {"nodes": NAMED},
            "stack-port-names: SpectrumXRailPoolConfig names a rail's port, and rail 0 is called ens1 here and eth1 "
            "there: write PCI or MAC addresses instead of names in ports, so that names.netdev holds on all nodes",
            id="unlike names",
        ),
    ],
)
def test_what_it_cannot_do_is_refused(spec: dict[str, Any], message: str) -> None:
    assert refused(STACK, carried(**SITE | spec)) == [message]
