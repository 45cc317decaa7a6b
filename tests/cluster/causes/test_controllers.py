"""What the real scheduler and controllers report of pods is named: each pod here waits for one reason."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes import control_plane
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from trackbed.cluster.api.response import Object
from trackbed.cluster.causes.waiting import WaitingPods, list_waiting_pods

CLAIMS = "resource.k8s.io/v1"
_SECONDS = 60


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, control_plane_programs: Path) -> Iterator[BlockingClient]:
    programs, folder = control_plane_programs, tmp_path_factory.mktemp("server")
    with (
        control_plane.run_control_plane(folder, programs) as kubeconfig,
        connect(str(kubeconfig)) as blocking_client,
    ):
        make_node(blocking_client)
        yield blocking_client


def make_node(client: BlockingClient) -> None:
    """A node that is ready and offers two devices of one rail; no kubelet runs."""
    head: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-0"}}
    client.create(head)
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}]
    offered = {"cpu": "8", "memory": "8Gi", "pods": "99", "nvidia.com/rail0": "2"}
    status = {"conditions": conditions, "allocatable": offered, "capacity": offered}
    client.apply({**head, "status": status}, subresource="/status", manager="kubelet", force=True)
    lease: Object = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    lease["metadata"] = {"name": "gpu-0", "namespace": "kube-node-lease"}
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-node-lease"}})
    renewed = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    client.apply({**lease, "spec": {"holderIdentity": "gpu-0", "leaseDurationSeconds": 3600, "renewTime": renewed}})


def make_pod(client: BlockingClient, name: str, limits: dict[str, str] | None = None, **spec: Any) -> None:
    container = {"name": "main", "image": "x", "resources": {"limits": limits or {}}}
    tolerations = [{"operator": "Exists"}]
    pod_spec = {"containers": [container], "automountServiceAccountToken": False, "tolerations": tolerations, **spec}
    client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_spec})


def make_claim(client: BlockingClient, name: str, class_name: str) -> None:
    requests = [{"name": "rail0", "exactly": {"deviceClassName": class_name}}]
    spec = {"devices": {"requests": requests}}
    client.create({"apiVersion": CLAIMS, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec})


def claim(name: str) -> dict[str, Any]:
    return {"resourceClaims": [{"name": "rails", "resourceClaimName": name}]}


def wait_for(client: BlockingClient, subject: str) -> WaitingPods:
    """The group whose first pod or controller is `subject`, as soon as it is reported with a cause."""
    deadline = time.monotonic() + _SECONDS
    groups: tuple[WaitingPods, ...] = ()
    while time.monotonic() < deadline:
        groups = client.run(list_waiting_pods(client.dynamic, datetime.now(UTC)))
        for group in groups:
            if group.first == subject and group.id:
                return group
        time.sleep(0.2)
    pytest.fail(f"{subject} is not among {groups}")


def test_a_resource_that_no_node_has(client: BlockingClient) -> None:
    make_pod(client, "a-nowhere", {"nvidia.com/rail9": "1"})
    group = wait_for(client, "default/a-nowhere")
    assert (group.id, group.title) == ("no-node-offers-resource", "no node offers nvidia.com/rail9")


def test_a_resource_of_which_too_few_are_free(client: BlockingClient) -> None:
    make_pod(client, "b-more", {"nvidia.com/rail0": "3"})
    group = wait_for(client, "default/b-more")
    assert (group.id, group.waits) == ("resource-in-use", True)


def test_a_claim_whose_class_does_not_exist(client: BlockingClient) -> None:
    make_claim(client, "classless", "nothing")
    make_pod(client, "c-classless", **claim("classless"))
    assert wait_for(client, "default/c-classless").id == "device-class-missing"


def test_a_claim_that_does_not_exist(client: BlockingClient) -> None:
    make_pod(client, "d-claimless", **claim("missing"))
    assert wait_for(client, "default/d-claimless").id == "claim-missing"


def test_a_template_that_does_not_exist(client: BlockingClient) -> None:
    make_pod(client, "e-template", resourceClaims=[{"name": "rails", "resourceClaimTemplateName": "absent"}])
    assert wait_for(client, "default/e-template").id == "claim-missing"


def test_claims_before_and_after_a_driver_has_announced_devices(client: BlockingClient) -> None:
    expression = 'device.driver == "dra.net" && device.attributes["dra.net"].rdma == true'
    selectors = [{"cel": {"expression": expression}}]
    device_class: Object = {"apiVersion": CLAIMS, "kind": "DeviceClass", "metadata": {"name": "rails"}}
    client.create({**device_class, "spec": {"selectors": selectors}})
    make_claim(client, "rails", "rails")
    make_pod(client, "f-claims", **claim("rails"))
    assert wait_for(client, "default/f-claims").id == "no-device-slices"
    devices = [{"name": "rail0", "attributes": {"dra.net/rdma": {"bool": False}}}]
    pool = {"name": "gpu-0", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "dra.net", "pool": pool, "nodeName": "gpu-0", "devices": devices}
    client.create({"apiVersion": CLAIMS, "kind": "ResourceSlice", "metadata": {"name": "rails"}, "spec": spec})
    assert wait_for(client, "default/f-claims").id == "claim-unsatisfied"


def make_job(client: BlockingClient, name: str, limits: dict[str, str]) -> None:
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    client.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}})


def test_a_job_that_a_quota_keeps_from_its_pods(client: BlockingClient) -> None:
    quota: Object = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team-a"}}
    client.create({**quota, "spec": {"hard": {"requests.nvidia.com/rail7": "1"}}})
    time.sleep(1)
    make_job(client, "over", {"nvidia.com/rail7": "2"})
    assert wait_for(client, "Job default/over").id == "quota-exceeded"


def test_a_job_whose_pods_a_webhook_that_is_down_keeps_away(client: BlockingClient) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    webhook: Object = {
        "name": "pods.spiderpool.spidernet.io",
        "clientConfig": {"url": "https://127.0.0.1:1/mutate"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 2,
    }
    configuration: Object = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    configuration |= {"metadata": {"name": "spiderpool"}, "webhooks": [webhook]}
    client.create(configuration)
    make_job(client, "kept-away", {})
    group = wait_for(client, "Job default/kept-away")
    client.delete(configuration)
    assert (group.id, group.title) == (
        "webhook-unreachable",
        "the API server cannot reach webhook pods.spiderpool.spidernet.io",
    )
