"""Pods of Kubernetes get the rails that the kubelet gave them; asked of an agent and of a stand-in for the kubelet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.rails.kubelet.fake import Kubelet, running
from tests.node.rails.node import Node, Pod, inside

pytestmark = pytest.mark.needs("root")

ETH0 = {"cniVersion": "1.1.0", "interfaces": [{"name": "eth0"}], "ips": [], "routes": []}


@pytest.fixture
def kubelet(node: Node, tmp_path: Path) -> Iterator[Kubelet]:
    kubelet = Kubelet(tmp_path / "kubelet")
    kubelet.folder.mkdir()
    with running(kubelet):
        node.start(options=("--kubelet", str(kubelet.folder), "--cdi", str(node.folder / "cdi")))
        yield kubelet


def of(name: str, namespace: str = "default") -> dict[str, str]:
    """What a kubelet's runtime says of a pod."""
    return {"CNI_ARGS": f"IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name};K8S_POD_UID=1"}


def add(node: Node, pod: Pod, name: str) -> dict[str, Any]:
    done = node.call("ADD", pod, of(name), prevResult=ETH0)
    assert done.status == 0, done.printed
    return done.json


def test_a_pod_gets_the_rails_that_it_was_given(node: Node, kubelet: Kubelet) -> None:
    kubelet.allocations["default", "job"] = {"trackbed.dev/rail2": ["rail2-0"], "trackbed.dev/rail5": ["rail5-3"]}
    pod = node.pod()
    assert [interface["name"] for interface in add(node, pod, "job")["interfaces"]] == ["eth0", "rail2", "rail5"]
    assert inside(pod.path).rails == ["rail2", "rail5"]
    assert node.call("CHECK", pod, of("job"), prevResult=add(node, pod, "job")).status == 0
    node.delete(pod)
    assert inside(pod.path).rails == []


def test_containers_are_given_what_cdi_says_as_long_as_the_pod_is_there(node: Node, kubelet: Kubelet) -> None:
    kubelet.allocations["default", "job"] = {"trackbed.dev/rail2": ["rail2-0"], "trackbed.dev/rail5": ["rail5-3"]}
    pod = node.pod()
    add(node, pod, "job")
    [path] = (node.folder / "cdi").iterdir()
    document = json.loads(path.read_bytes())
    assert [interface["name"] for interface in document["devices"]] == ["rail2-0", "rail5-3"]
    assert document["devices"][1]["containerEdits"]["env"][0] == "TRACKBED_RAIL5_NETDEV=rail5"
    path.unlink()
    add(node, pod, "job")
    assert path.exists(), "what was lost is written again"
    node.delete(pod)
    assert not path.exists()


def test_a_pod_without_rails_passes_with_the_result_before_ours(node: Node, kubelet: Kubelet) -> None:
    kubelet.allocations["default", "plain"] = {}
    pod = node.pod()
    assert add(node, pod, "plain") == ETH0
    assert node.call("CHECK", pod, of("plain"), prevResult=ETH0).status == 0
    assert inside(pod.path).rails == []
    node.delete(pod)


def test_a_pod_that_the_kubelet_cannot_tell_of_is_tried_again_later(node: Node, kubelet: Kubelet) -> None:
    pod = node.pod()
    done = node.call("ADD", pod, of("ghost"), prevResult=ETH0)
    assert (done.status, done.json["code"]) == (1, 11)
    assert "which rails pod default/ghost has" in done.json["msg"]
    kubelet.allocations["default", "ghost"] = {"trackbed.dev/rail0": ["rail0-0"]}
    assert [interface["name"] for interface in add(node, pod, "ghost")["interfaces"]] == ["eth0", "rail0"]


@pytest.mark.usefixtures("kubelet")
@pytest.mark.parametrize("name", ["../etc", "A", "a b", "-a", "x" * 254])
def test_a_name_that_is_none_of_kubernetes_is_refused(node: Node, name: str) -> None:
    done = node.call("ADD", node.pod(), of(name))
    assert (done.status, done.json["code"]) == (1, 4)
    assert "must be names of Kubernetes" in done.json["msg"]
