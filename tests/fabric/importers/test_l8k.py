"""Configuration and topology of NVIDIA's Kubernetes Launch Kit."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fabric.importers.sites import addresses, codes, plan_of
from trackbed.fabric.importers import topology
from trackbed.fabric.importers.l8k import import_l8k
from trackbed.fabric.importers.result import ImportResult
from trackbed.fabric.model.problems import SpecError

CONFIG: dict[str, Any] = {
    "networkOperator": {"version": "v26.7.0"},
    "networkNamespaces": ["train"],
    "docaDriver": {"enable": True},
    "nvIpam": {"startingSubnet": "192.168.0.0", "mask": 22, "offset": 2, "perNodeBlockSize": 10},
    "sriov": {"ethernetMtu": 4200, "infinibandMtu": 4000, "numVfs": 8},
    "nicConfigurationOperator": {
        "deployNicInterfaceNameTemplate": True,
        "netdevPrefix": "eth_r%rail_id%",
        "rdmaPrefix": "rdma_r%rail_id%",
    },
    "spectrumX": {"singlePlane": {"netdevPrefix": "eth_r%rail_id%", "rdmaPrefix": "roce_r%rail_id%"}},
    "profile": {"fabric": "ethernet", "deployment": "sriov", "multirail": True},
    "clusterConfig": [
        {
            "identifier": "dell",
            "linkType": "Ethernet",
            "workerNodes": ["gpu-0", "gpu-1"],
            "pfs": [
                {"deviceID": "a2dc", "pciAddress": "0000:1A:00.0", "traffic": "east-west", "rail": 0},
                {"deviceID": "a2dc", "pciAddress": "0000:3c:00.0", "traffic": "east-west", "rail": 1},
                {"deviceID": "1023", "pciAddress": "0000:9d:00.0", "traffic": "north-south"},
            ],
        }
    ],
}  # fmt: skip


def change(path: str, value: object) -> dict[str, Any]:
    """Return the configuration with the value at a path like `profile.fabric` or `clusterConfig.0` replaced."""
    config = copy.deepcopy(CONFIG)
    target: Any = config
    *parents, key = path.split(".")
    for parent in parents:
        target = target[int(parent)] if parent.isdigit() else target.setdefault(parent, {})
    target[int(key) if key.isdigit() else key] = value
    return config


def run(config: object, topology: object = None) -> ImportResult:
    """Import a configuration, and a topology beside it."""
    files = [("cluster-config.yaml", yaml.safe_dump(config).encode())] if config else []
    files += [("topology.json", json.dumps(topology).encode())] if topology else []
    return import_l8k({"": files})


def spec_of(imported: ImportResult) -> dict[str, Any]:
    """Return `spec` of the document."""
    spec: dict[str, Any] = imported.document["spec"]
    return spec


def test_ports_by_pci_rails_ranges_and_mode_are_those_of_l8k() -> None:
    imported = run(CONFIG)
    assert codes(imported) == ["new-addresses"]
    assert spec_of(imported) == {
        "rails": [{"ipv4": "192.168.0.0/22"}, {"ipv4": "192.168.8.0/22"}],
        "addressing": {"scheme": "shared-subnet", "podAddresses": "10", "gateway": "first"},
        "nodes": [{"hosts": "gpu-[0-1]", "ports": ["0000:1a:00.0", "0000:3c:00.0"], "nic": "15b3:a2dc"}],
        "vfs": {"count": "8"},
        "mtu": "4200",
        "pods": {"mode": "sriov"},
        "names": {"netdev": "eth_r{rail}", "rdma": "rdma_r{rail}"},
        "kubernetes": {"stack": "network-operator-sriov", "namespace": "train", "driver": "container"},
    }
    assert imported.summary == "1 l8k file: 2 hosts, 2 rails, 4 ports; l8k gives ports no addresses, the plan's are new"
    assert [node.name for node in plan_of(imported).nodes] == ["gpu-0", "gpu-1"]


@pytest.mark.parametrize(
    ("fabric", "deployment", "mode", "stack"),
    [
        ("ethernet", "rdma_shared", "macvlan", "network-operator-macvlan"),
        ("infiniband", "sriov", "sriov", "network-operator-ib-sriov"),
        ("infiniband", "rdma_shared", "macvlan", "network-operator-ipoib"),
    ],
)
def test_the_profile_is_the_stack_and_the_mode(fabric: str, deployment: str, mode: str, stack: str) -> None:
    imported = run(change("profile", {"fabric": fabric, "deployment": deployment}))
    spec = spec_of(imported)
    assert "error" not in {problem.severity for problem in imported.problems}
    assert (spec["pods"], spec["kubernetes"]["stack"]) == ({"mode": mode}, stack)
    assert spec.get("linkType") == ("infiniband" if fabric == "infiniband" else None)


def test_subnets_of_the_file_come_before_computed_ones() -> None:
    subnets = [{"subnet": f"10.{n}.0.0/24", "gateway": f"10.{n}.0.254"} for n in (5, 3)]
    assert spec_of(run(change("nvIpam.subnets", subnets)))["rails"] == [
        {"ipv4": "10.5.0.0/24", "gateway": "10.5.0.254"},
        {"ipv4": "10.3.0.0/24", "gateway": "10.3.0.254"},
    ]


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("profile.multirail", False, "no-place"),
        ("profile.routing", "destination-based", "no-place"),
        ("nvIpam.reserveFirstIPs", 10, "no-place"),
        ("nvIpam.subnets", [{"subnet": f"10.{n}.0.0/24", "exclusions": [{}]} for n in range(2)], "no-place"),
        ("spectrumX.overlay", "l3", "no-place"),
        ("networkNamespaces", ["a", "b"], "no-place"),
        ("profile.deployment", "telepathy", "no-place"),
        ("nicConfigurationOperator.netdevPrefix", "e%nic_id%", "no-place"),
        ("nvIpam.subnets", [{"subnet": "10.1.0.0/24"}], "few-subnets"),
        ("nvIpam.subnets", [{"subnet": "ten"}], "bad-subnet"),
        ("nvIpam.startingSubnet", "255.255.252.0", "bad-subnet"),
        ("nvIpam.mask", "wide", "bad-value"),
        ("clusterConfig.0.pfs.0.rail", 99, "bad-rail"),
        ("clusterConfig.0.pfs.0.pciAddress", "1a:00.0", "bad-pci"),
        ("clusterConfig.0.pfs.1.rail", 0, "second-port"),
        ("clusterConfig.0.workerNodes", ["gpu-0", "a b"], "bad-host"),
        ("clusterConfig", [CONFIG["clusterConfig"][0], {"identifier": "x"}], "empty-group"),
        ("clusterConfig", [CONFIG["clusterConfig"][0]] * 2, "second-group"),
    ],
)
def test_what_has_no_place_in_a_fabric_is_said(path: str, value: object, code: str) -> None:
    imported = run(change(path, value))
    assert code in codes(imported)
    assert all(problem.place for problem in imported.problems if problem.code == code)


@pytest.mark.parametrize(("path", "value"), [("clusterConfig.0.workerNodes", []), ("clusterConfig.0.pfs", None)])
def test_without_hosts_or_ports_there_is_no_fabric(path: str, value: object) -> None:
    with pytest.raises(SpecError, match="no group of clusterConfig has both workerNodes and ports"):
        run(change(path, value))


def test_gpus_that_are_not_one_a_port_are_counted() -> None:
    pf = {"traffic": "east-west", "deviceID": "1023"}
    pfs = [{**pf, "pciAddress": f"0000:0{n}:00.0", "connectedGPU": f"GPU{n // 2}", "rail": n} for n in range(4)]
    [group] = spec_of(run(change("clusterConfig.0.pfs", pfs)))["nodes"]
    assert (group["gpus"], group["nic"]) == ("2", "15b3:1023")


def test_one_group_in_place_of_a_list_has_rails_in_the_order_of_its_ports() -> None:
    ports = [{"deviceID": "1023", "pciAddress": f"0000:{bus}:00.0", "traffic": "east-west"} for bus in ("5a", "1b")]
    group = {"capabilities": {"nodes": {"rdma": True}}, "workerNodes": ["gpu-7"], "pfs": ports}
    imported = run(change("clusterConfig", group))
    assert codes(imported) == ["new-addresses"]
    assert spec_of(imported)["nodes"] == [
        {"hosts": "gpu-7", "ports": ["0000:5a:00.0", "0000:1b:00.0"], "nic": "15b3:1023"}
    ]


def test_a_group_that_lacks_a_rail_has_none_there() -> None:
    config = copy.deepcopy(CONFIG)
    port = {"pciAddress": "0000:09:00.0", "traffic": "east-west", "rail": 1}
    config["clusterConfig"].append({"identifier": "hp", "workerNodes": ["hp-0"], "pfs": [port]})
    imported = run(config)
    assert spec_of(imported)["nodes"][1] == {"hosts": "hp-0", "ports": [None, "0000:09:00.0"]}
    assert "several-groups" in codes(imported)


def links(hosts: dict[str, int], planes: int = 1) -> dict[str, Any]:
    """Return a topology of two rails; `hosts` gives the unit of each host."""
    return {
        "nodes": [],
        "links": [
            [
                {"node": f"leaf-{plane}", "interface": "swp1", "attributes": {"role": "leaf", "plane": plane}},
                {
                    "node": host,
                    "interface": f"r{rail}p{plane}",
                    "attributes": {"role": "host", "rail": rail, "su": unit},
                },
            ]
            for host, unit in hosts.items()
            for rail in (0, 1)
            for plane in range(planes)
        ],
    }


def spectrum_x(**fields: object) -> dict[str, Any]:
    """Return the configuration with a Spectrum-X profile."""
    return change("profile", {"fabric": "ethernet", "spectrumX": {"enable": True, **fields}})


def test_a_topology_places_hosts_and_gives_their_addresses() -> None:
    imported = run(spectrum_x(topologyType="2-tier", multiplaneMode="none"), links({"gpu-1": 0, "gpu-0": 3, "x": 0}))
    assert codes(imported) == []
    assert addresses(plan_of(imported)) == {
        ("gpu-0", "eth_r0"): ("172.16.3.0/31", "172.16.3.1"),
        ("gpu-0", "eth_r1"): ("172.18.3.0/31", "172.18.3.1"),
        ("gpu-1", "eth_r0"): ("172.16.0.0/31", "172.16.0.1"),
        ("gpu-1", "eth_r1"): ("172.18.0.0/31", "172.18.0.1"),
    }
    spec = spec_of(imported)
    assert spec["nodes"][0]["ports"] == ["0000:1a:00.0", "0000:3c:00.0"]
    assert spec["names"] == {"netdev": "eth_r{rail}", "rdma": "roce_r{rail}"}
    assert (spec["vfs"], spec["kubernetes"]["stack"]) == ({"count": "1"}, "spectrum-x")


def test_three_tiers_begin_at_10() -> None:
    topology = links({"gpu-0": 0, "gpu-1": 1})
    for link in topology["links"]:
        link[1]["attributes"]["pod"] = 2
    imported = run(spectrum_x(topologyType="3-tier", multiplaneMode="none"), topology)
    assert addresses(plan_of(imported))["gpu-1", "eth_r1"] == ("10.34.1.0/31", "10.34.1.1")


def test_planes_with_addresses_become_rails_and_are_said() -> None:
    imported = run(None, links({"gpu-0": 0, "gpu-1": 1}, planes=2))
    assert codes(imported) == ["no-place"]
    assert len(spec_of(imported)["rails"]) == 4


def test_planes_that_the_hardware_balances_share_an_address() -> None:
    imported = run(spectrum_x(multiplaneMode="hwplb"), links({"gpu-0": 0, "gpu-1": 1}, planes=2))
    assert addresses(plan_of(imported))["gpu-1", "rail1"] == ("172.16.65.0/31", "172.16.65.1")


def test_a_topology_of_air_is_read_by_its_names() -> None:
    nodes = {f"worker-su01-h0{n}": {"model": "host", "network_pci": {"rail1": {}, "rail2": {}}} for n in (1, 3)}
    pairs = [
        [{"node": host, "interface": f"rail{r}p1", "network_pci": f"rail{r}"}, {"node": f"leaf-p1-su001-r{r}"}]
        for host in nodes
        for r in (1, 2)
    ]
    imported = run(None, {"content": {"nodes": nodes, "links": [*pairs, ["unconnected", pairs[0][0]]]}})
    assert codes(imported) == []
    assert addresses(plan_of(imported))["worker-su01-h03", "rail2p1"] == ("172.18.0.4/31", "172.18.0.5")


@pytest.mark.parametrize(
    ("host", "interface", "leaf"),
    [("worker-h01", "rail1p1", "leaf-p1-su001-r1"), ("worker-su01-h01", "eth0", "leaf-p1-su001-r1"),
     ("worker-su01-h01", "rail1p1", "leaf-p1-su001-r2")],
)  # fmt: skip
def test_names_of_air_that_tell_no_place_are_refused(host: str, interface: str, leaf: str) -> None:
    nodes = {host: {"emulation_type": "HOST"}}
    pair = [{"node": host, "interface": interface}, {"node": leaf}]
    with pytest.raises(SpecError, match="is left out"):
        run(None, {"content": {"nodes": nodes, "links": [pair]}})


def test_workers_and_hosts_of_the_topology_must_have_the_same_names() -> None:
    with pytest.raises(SpecError) as caught:
        run(spectrum_x(), links({"gpu-0.example": 0, "gpu-1.example": 0}))
    assert [problem.code for problem in caught.value.problems].count("no-link") == 2


def test_without_a_topology_units_are_filled_in_order() -> None:
    imported = run(spectrum_x(multiplaneMode="none"))
    assert codes(imported) == ["no-topology"]
    assert addresses(plan_of(imported))["gpu-1", "eth_r1"] == ("172.18.0.2/31", "172.18.0.3")


@pytest.mark.parametrize("files", [[("a.yaml", b"a: 1\n")], [("a.json", b"[")], [("a.json", b'{"links": []}')]])
def test_files_that_are_not_of_l8k_are_refused(files: list[tuple[str, bytes]]) -> None:
    with pytest.raises(SpecError):
        import_l8k({"": files})


def test_a_topology_with_too_many_hosts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "MAX_HOSTS", 2)
    with pytest.raises(SpecError, match="more than 2 hosts"):
        run(None, links({f"gpu-{number}": 0 for number in range(3)}))


_LEAF = st.none() | st.booleans() | st.integers(-1, 70_000) | st.text("0a:./-%é", max_size=8)
_ANY = _LEAF | st.lists(_LEAF, max_size=2) | st.dictionaries(st.sampled_from(["subnet", "rail", "enable"]), _LEAF)
_PATHS = st.sampled_from([
    "profile", "profile.deployment", "profile.spectrumX", "nvIpam", "nvIpam.mask", "nvIpam.offset", "nvIpam.subnets",
    "clusterConfig", "clusterConfig.0", "clusterConfig.0.pfs", "clusterConfig.0.pfs.1", "clusterConfig.0.pfs.0.rail",
    "clusterConfig.0.workerNodes", "networkNamespaces", "sriov.numVfs", "sriov.ethernetMtu", "spectrumX",
    "nicConfigurationOperator.netdevPrefix", "nvIpam.perNodeBlockSize", "docaDriver",
])  # fmt: skip


@settings(max_examples=200)
@given(_PATHS, _ANY, st.sampled_from([None, links({"gpu-0": 0, "gpu-1": 9}), {"links": [[{}, {}]]}, {"content": {}}]))
def test_any_value_ends_in_a_fabric_or_problems(path: str, value: object, topology: object) -> None:
    try:
        imported = run(change(path, value), topology)
    except SpecError as error:
        assert error.problems  # noqa: PT017 - either outcome is right
        return
    assert imported.lock
