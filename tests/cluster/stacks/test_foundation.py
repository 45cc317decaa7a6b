"""What all stacks are built on: groups of like nodes, PCI addresses from names, resources, sizes, releases."""

from __future__ import annotations

import msgspec
import pytest

from tests.cluster.stacks.sites import POINT_TO_POINT, SITES, alike, planned, ports, unlike
from trackbed.cluster.stacks import stack
from trackbed.cluster.stacks.groups import groups
from trackbed.cluster.stacks.objects import json_text, manifest
from trackbed.cluster.stacks.pci import pci_address
from trackbed.cluster.stacks.rails import prefix, resource
from trackbed.cluster.stacks.refusals import refusals
from trackbed.cluster.stacks.releases import catalogue, release, unknown_versions
from trackbed.cluster.stacks.size import ETCD_BYTES, too_large
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
    assert pci_address(port(name)) == address


def test_the_fabrics_own_pci_address_comes_first() -> None:
    assert pci_address(port("enp1s0", "0000:99:00.0")) == "0000:99:00.0"


def test_like_nodes_are_one_group_selected_by_the_fabrics_label() -> None:
    (only,) = groups(planned(HOSTDEVICE, alike(4, 2), 2))
    assert (len(only.nodes), only.selector) == (4, {"trackbed.dev/fabric": "train"})


def test_unlike_nodes_are_told_apart_by_a_second_label() -> None:
    first, second = groups(planned(HOSTDEVICE, unlike(), 8))
    assert [node.name for node in second.nodes] == ["big-0", "big-1"]
    assert first.selector == {"trackbed.dev/fabric": "train", "trackbed.dev/group": "0"}
    assert second.selector == {"trackbed.dev/fabric": "train", "trackbed.dev/group": "1"}


@pytest.mark.parametrize(
    ("written", "wanted"),
    [("trackbed.dev/rail{rail}", "nvidia.com/rail0"), ("rdma/nic{number}", "rdma/nic1"), ("r{rail}", "nvidia.com/r0")],
)
def test_a_prefix_that_the_user_wrote_stays(written: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SITES, HOSTDEVICE, {"addressing": POINT_TO_POINT, "names": {"resource": written}})
    plan = planned(HOSTDEVICE, alike(2, 2), 2)
    assert resource(plan.common.rails[0], "nvidia.com") == wanted
    assert prefix(plan, "nvidia.com") == wanted.partition("/")[0]


def test_json_inside_objects_shows_short_lists_on_one_line() -> None:
    assert json_text({"a": ["x", "y"], "b": [{"c": 1}]}) == (
        '{\n  "a": ["x", "y"],\n  "b": [\n    {\n      "c": 1\n    }\n  ]\n}\n'
    )


def test_an_object_that_outgrows_etcd_is_refused_with_the_number_that_fits() -> None:
    one = manifest("v1", "Pool", "rail0", entries=["x" * 90] * 10_000)
    problem = too_large(one, 10_000, 97, "cut it")
    assert problem is not None
    assert problem.message == (
        "Pool 'rail0' with 10000 entries would take 1.9 MB with its status; etcd takes 1.6 MB, which is 8277 entries: "
        "cut it"
    )
    fits = manifest("v1", "Pool", "rail0", entries=["x" * 90] * 8277)
    assert len(msgspec.json.encode(fits)) + 8277 * 97 <= ETCD_BYTES
    assert too_large(fits, 8277, 97, "") is None


def test_the_newest_release_is_taken_unless_the_fabric_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    known = catalogue()["spiderpool"].releases
    assert release(planned(HOSTDEVICE, alike(2, 2), 2), "spiderpool") == known[-1]
    older = {"addressing": POINT_TO_POINT, "kubernetes": {"versions": {"spiderpool": known[0].version}}}
    monkeypatch.setitem(SITES, HOSTDEVICE, older)
    assert release(planned(HOSTDEVICE, alike(2, 2), 2), "spiderpool") == known[0]


def test_a_version_that_nobody_knows_is_refused_with_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    site = {"addressing": POINT_TO_POINT, "kubernetes": {"versions": {"dranet": "v9", "spiderpol": "v1"}}}
    monkeypatch.setitem(SITES, HOSTDEVICE, site)
    messages = [str(problem) for problem in unknown_versions(planned(HOSTDEVICE, alike(2, 2), 2))]
    known = ", ".join(one.version for one in catalogue()["dranet"].releases)
    assert messages[0] == f"error: the release catalogue has no dranet 'v9'; it has {known} [unknown-version]"
    assert "no spiderpol 'v1'; it has none: components are" in messages[1]


def test_a_host_name_that_no_kubernetes_node_can_have_is_refused() -> None:
    plan = planned(HOSTDEVICE, [{"hosts": "GPU_[0-1],gpu-2", "ports": ports(2)}], 2)
    (problem,) = refusals(stack(HOSTDEVICE), plan)
    assert problem.message.startswith("'GPU_0' is no name of a Kubernetes node (2 of 3 are none): lower case")
    assert list(refusals(stack("bare-metal"), planned("bare-metal", [{"hosts": "GPU_0", "ports": ports(2)}], 2))) == []
