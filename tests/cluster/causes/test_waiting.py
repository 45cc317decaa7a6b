"""Which pods do not start, and why, on a real API server with events as kubelet, Multus and controllers write them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes import control_plane
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.cluster.causes.cleaning import delete_waiting
from trackbed.cluster.api.response import Object
from trackbed.cluster.causes.waiting import WaitingPods, describe_pods, list_waiting_pods

NOW = datetime.now(UTC)
NETWORKS = {"k8s.v1.cni.cncf.io/networks": "rail0"}
USED_UP = (
    'grpc call failed: rpc error: code = ResourceExhausted desc = no free addresses in the pool "rail0", poolType "x"'
)
MISSING = "cannot find a network-attachment-definition (rail0) in namespace (default): not found"
UNSCHEDULABLE = "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient nvidia.com/rail0. preemption: 0/1 nodes."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, control_plane_programs: Path) -> Iterator[BlockingClient]:
    """A server of its own, since whatever waits on it counts."""
    programs, folder = control_plane_programs, tmp_path_factory.mktemp("server")
    with (
        control_plane.run_control_plane(folder, programs, controllers=False) as kubeconfig,
        connect(str(kubeconfig)) as blocking_client,
    ):
        blocking_client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
        yield blocking_client


@pytest.fixture
def client(server: BlockingClient) -> Iterator[BlockingClient]:
    yield server
    delete_waiting(server)


def pod(client: BlockingClient, name: str, node: str = "", status: Any = None, **metadata: Any) -> None:
    spec = {"containers": [{"name": "main", "image": "x"}], "automountServiceAccountToken": False}
    head: Object = {"apiVersion": "v1", "kind": "Pod"}
    client.create(
        {**head, "metadata": {"name": name, **metadata}, "spec": {**spec, **({"nodeName": node} if node else {})}}
    )
    if status:
        body = {**head, "metadata": {"name": name, "namespace": "default"}, "status": status}
        client.apply(body, subresource="/status", manager="kubelet", force=True)


def event(client: BlockingClient, about: str, reason: str, message: str, seconds: int = 0) -> None:
    """An event of some seconds ago."""
    kind, name = about.split("/")
    time = (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    client.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{reason.lower()}.{seconds}", "namespace": "default"},
            "involvedObject": {"kind": kind, "namespace": "default", "name": name},
            "reason": reason,
            "message": message,
            "type": "Warning",
            "lastTimestamp": time,
        }
    )


def waiting(client: BlockingClient) -> list[WaitingPods]:
    return list(client.run(list_waiting_pods(client.dynamic, NOW)))


def unscheduled(message: str) -> Any:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


def test_pods_with_one_cause_are_one_group_and_what_follows_comes_later(client: BlockingClient) -> None:
    for number in range(3):
        pod(client, f"train-{number}", "gpu-0", annotations=NETWORKS)
        event(client, f"Pod/train-{number}", "FailedCreatePodSandBox", f"Failed to create pod sandbox: {USED_UP}")
    pod(client, "later", annotations=NETWORKS, status=unscheduled(UNSCHEDULABLE))
    pod(client, "odd", "gpu-1", annotations=NETWORKS)
    event(client, "Pod/odd", "FailedMount", "MountVolume.SetUp failed")
    pod(client, "plain", "gpu-1")
    event(client, "Pod/plain", "FailedMount", "MountVolume.SetUp failed")
    groups = waiting(client)
    assert [(group.id, group.count, group.first, group.node) for group in groups] == [
        ("nv-ipam-pool-used-up", 3, "default/train-0", "gpu-0"),
        ("", 1, "default/odd", "gpu-1"),
        ("no-node-offers-resource", 1, "default/later", ""),
    ]
    assert list(describe_pods(groups[0])) == [
        (
            "default/train-0 on gpu-0, and 2 more: this node has no free address left in pool rail0 "
            "(nv-ipam-pool-used-up)"
        ),
        (
            "what to do: End a pod on this node, or plan more addresses for each node (`addressing.podAddresses` in "
            "the Fabric)."
        ),
        f"reported: Failed to create pod sandbox: {USED_UP}",
    ]
    assert groups[2].title == "no node offers nvidia.com/rail0"


def test_what_nodes_offer_is_in_use_and_nothing_is_broken(client: BlockingClient) -> None:
    node: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-0"}}
    client.create(node)
    offer = {**node, "status": {"allocatable": {"nvidia.com/rail0": "8"}}}
    client.apply(offer, subresource="/status", manager="kubelet", force=True)
    pod(client, "later", annotations=NETWORKS, status=unscheduled(UNSCHEDULABLE))
    (group,) = waiting(client)
    assert (group.id, group.waits, group.title) == ("resource-in-use", True, "too few nvidia.com/rail0 are free")


def test_the_newest_message_that_is_known_counts_and_not_the_schedulers_of_before(client: BlockingClient) -> None:
    pod(client, "train", "gpu-0", annotations=NETWORKS)
    event(client, "Pod/train", "FailedScheduling", UNSCHEDULABLE, 60)
    event(client, "Pod/train", "NoNetworkFound", MISSING, 40)
    event(client, "Pod/train", "FailedCreatePodSandBox", USED_UP, 20)
    event(client, "Pod/train", "FailedMount", "MountVolume.SetUp failed", 1)
    assert [group.id for group in waiting(client)] == ["nv-ipam-pool-used-up"]


def test_a_pod_that_kubelet_has_just_refused_counts_and_one_of_long_ago_does_not(client: BlockingClient) -> None:
    message = (
        "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/rail0, which"
    )
    refused = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message}
    pod(client, "refused", "gpu-0", refused)
    pod(client, "crashed", "gpu-0", {"phase": "Failed", "reason": "Error", "message": message})
    assert [(group.id, group.first) for group in waiting(client)] == [
        ("device-plugin-not-registered", "default/refused")
    ]
    later = NOW + timedelta(hours=1)
    assert client.run(list_waiting_pods(client.dynamic, later)) == ()


def test_a_controller_that_may_not_create_its_pods_is_named(client: BlockingClient) -> None:
    denied = 'Internal error occurred: failed calling webhook "pods.spiderpool.spidernet.io": failed to call webhook'
    event(client, "Job/train", "FailedCreate", denied)
    event(client, "Job/other", "FailedCreate", "something else")
    event(client, "Job/mended", "FailedCreate", denied, 3600)
    assert [(group.id, group.first) for group in waiting(client)] == [("webhook-unreachable", "Job default/train")]


def test_claims_without_any_driver_are_told_apart_from_claims_that_nothing_satisfies(client: BlockingClient) -> None:
    claims = unscheduled("0/1 nodes are available: 1 cannot allocate all claims. still not schedulable")
    pod(client, "train", annotations=NETWORKS, status=claims)
    assert [group.id for group in waiting(client)] == ["no-device-slices"]
    pool = {"name": "gpu-0", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "dra.net", "pool": pool, "nodeName": "gpu-0", "devices": [{"name": "rail0"}]}
    client.create(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}
    )
    assert [group.id for group in waiting(client)] == ["claim-unsatisfied"]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param(NETWORKS, ["multus-not-called"], id="requested"),
        pytest.param({**NETWORKS, "k8s.v1.cni.cncf.io/network-status": "[]"}, [], id="attached"),
        pytest.param({**NETWORKS, "k8s.v1.cni.cncf.io/networks-status": "[]"}, [], id="attached-by-an-old-multus"),
        pytest.param({"k8s.v1.cni.cncf.io/networks": " "}, [], id="none-requested"),
        pytest.param({}, [], id="no-annotation"),
    ],
)
def test_a_pod_that_runs_without_its_networks_is_named(
    client: BlockingClient, annotations: dict[str, str], expected: list[str]
) -> None:
    pod(client, "passed-over", "node-7", {"phase": "Running"}, annotations=annotations)
    groups = waiting(client)
    assert [group.id for group in groups] == expected
    assert all("the Multus pod of node-7 runs" in group.fix and group.node == "node-7" for group in groups)
