"""What all stacks are built on: groups of like nodes, PCI addresses from names, resources, sizes, releases."""

from __future__ import annotations

import msgspec
import pytest

from tests.cluster.stacks.sites import POINT_TO_POINT, SITES, alike, planned, ports, unlike
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.groups import group_nodes
from trackbed.cluster.stacks.objects import build_manifest, to_json_text
from trackbed.cluster.stacks.pci import find_pci_address
from trackbed.cluster.stacks.rails import choose_resource_prefix, get_resource_name
from trackbed.cluster.stacks.refusals import find_refusals
from trackbed.cluster.stacks.releases import choose_release, find_unknown_versions, load_catalogue
from trackbed.cluster.stacks.size import MAX_REQUEST_BYTES, check_object_size
from trackbed.cluster.stacks.stack import iter_objects
from trackbed.fabric.plan.plan import PortPlan

HOSTDEVICE = "network-operator-hostdevice"


def port(name: str, pci: str | None = None) -> PortPlan:
    return PortPlan(0, "rail0", name, pci, None, (), "leaf", None, None)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("enp122s0np0", "0000:7a:00.0"),
        ("enp24s0f1np1", "0000:18:00.1"),
        ("enP2p1s0f0np0", "0002:01:00.0"),
        ("ibp66s0", "0000:42:00.0"),
        ("ibp66s0f3", "0000:42:00.3"),
        ("ens3f0", None),
        ("eno1np0", None),
        ("rail0", None),
        ("enp300s0", None),
        ("enp66s0d1", None),
    ],
)
def test_a_name_made_of_a_pci_address_tells_it(name: str, address: str | None) -> None:
    assert find_pci_address(port(name)) == address


def test_the_fabrics_own_pci_address_comes_first() -> None:
    assert find_pci_address(port("enp1s0", "0000:99:00.0")) == "0000:99:00.0"


@pytest.mark.parametrize(
    "name", [name for name in SITES if load_stack(name).access(planned(name, alike(2, 2), 2)).networks]
)
def test_interfaces_of_pods_have_the_names_that_the_fabric_gives_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SITES, name, SITES[name] | {"names": {"pod": "net{number}"}})
    networks = load_stack(name).access(planned(name, alike(2, 2), 2)).networks
    assert [network.interface for network in networks] == ["net1", "net2"]


def test_like_nodes_are_one_group_selected_by_the_fabrics_label() -> None:
    (only,) = group_nodes(planned(HOSTDEVICE, alike(4, 2), 2))
    assert (len(only.nodes), only.node_labels) == (4, {"trackbed.dev/fabric": "train"})


def test_unlike_nodes_are_told_apart_by_a_second_label() -> None:
    first, second = group_nodes(planned(HOSTDEVICE, unlike(), 8))
    assert [node.name for node in second.nodes] == ["big-0", "big-1"]
    assert first.node_labels == {"trackbed.dev/fabric": "train", "trackbed.dev/group": "0"}
    assert second.node_labels == {"trackbed.dev/fabric": "train", "trackbed.dev/group": "1"}


@pytest.mark.parametrize(
    ("written", "wanted"),
    [("trackbed.dev/rail{rail}", "nvidia.com/rail0"), ("rdma/nic{number}", "rdma/nic1"), ("r{rail}", "nvidia.com/r0")],
)
def test_a_prefix_that_the_user_wrote_stays(written: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SITES, HOSTDEVICE, {"addressing": POINT_TO_POINT, "names": {"resource": written}})
    plan = planned(HOSTDEVICE, alike(2, 2), 2)
    assert get_resource_name(plan.common.rails[0], "nvidia.com") == wanted
    assert choose_resource_prefix(plan, "nvidia.com") == wanted.partition("/")[0]


def test_json_inside_objects_shows_short_lists_on_one_line() -> None:
    assert to_json_text({"a": ["x", "y"], "b": [{"c": 1}]}) == (
        '{\n  "a": ["x", "y"],\n  "b": [\n    {\n      "c": 1\n    }\n  ]\n}\n'
    )


def test_an_object_that_outgrows_etcd_is_refused_with_the_number_that_fits() -> None:
    item = build_manifest("v1", "Pool", "rail0", entries=["x" * 90] * 10_000)
    problem = check_object_size(item, 10_000, 97, "cut it")
    assert problem is not None
    assert problem.message == (
        "Pool 'rail0' with 10000 entries would take 1.9 MB with its status; etcd takes 1.6 MB, which is 8277 entries: "
        "cut it"
    )
    fits = build_manifest("v1", "Pool", "rail0", entries=["x" * 90] * 8277)
    assert len(msgspec.json.encode(fits)) + 8277 * 97 <= MAX_REQUEST_BYTES
    assert check_object_size(fits, 8277, 97, "") is None


def test_the_newest_release_is_taken_unless_the_fabric_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    known = load_catalogue()["spiderpool"].releases
    assert choose_release(planned(HOSTDEVICE, alike(2, 2), 2), "spiderpool") == known[-1]
    older = {"addressing": POINT_TO_POINT, "kubernetes": {"versions": {"spiderpool": known[0].version}}}
    monkeypatch.setitem(SITES, HOSTDEVICE, older)
    assert choose_release(planned(HOSTDEVICE, alike(2, 2), 2), "spiderpool") == known[0]


def test_a_version_that_nobody_knows_is_refused_with_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    site = {"addressing": POINT_TO_POINT, "kubernetes": {"versions": {"dranet": "v9", "spiderpol": "v1"}}}
    monkeypatch.setitem(SITES, HOSTDEVICE, site)
    messages = [str(problem) for problem in find_unknown_versions(planned(HOSTDEVICE, alike(2, 2), 2))]
    known = ", ".join(item.version for item in load_catalogue()["dranet"].releases)
    assert messages[0] == f"error: the release catalogue has no dranet 'v9'; it has {known} [unknown-version]"
    assert "no spiderpol 'v1'; it has none: components are" in messages[1]


def test_a_host_name_that_no_kubernetes_node_can_have_is_refused() -> None:
    plan = planned(HOSTDEVICE, [{"hosts": "GPU_[0-1],gpu-2", "ports": ports(2)}], 2)
    (problem,) = find_refusals(load_stack(HOSTDEVICE), plan)
    assert problem.message.startswith("'GPU_0' is no name of a Kubernetes node (2 of 3 are none): lower case")
    assert (
        list(find_refusals(load_stack("bare-metal"), planned("bare-metal", [{"hosts": "GPU_0", "ports": ports(2)}], 2)))
        == []
    )


@pytest.mark.parametrize("ipam", ["nv-ipam", "whereabouts"])
@pytest.mark.parametrize("name", SITES)
def test_a_driver_container_is_deployed_or_refused(name: str, ipam: str) -> None:
    plan = planned(name, alike(4, 8), 8)
    plan = plan._replace(kubernetes=plan.kubernetes._replace(driver="container", ipam=ipam))
    refused = [problem for problem in find_refusals(load_stack(name), plan) if problem.code == "stack-driver-container"]
    policies = [body for body in iter_objects(load_stack(name), plan) if body["kind"] == "NicClusterPolicy"]
    assert bool(refused) is not any("ofedDriver" in policy["spec"] for policy in policies)
