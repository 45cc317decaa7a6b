"""Every kind of gate, stuck and open, on a real API server: what is missing is told with what a person can do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trackbed.kube.client import Client, Object, connect
from trackbed.kube.gates import look
from trackbed.stacks.stack import Wait

NAMESPACE = "gates"
LABELS = {"app": "operator"}
ALLOCATABLE = r"jsonpath={.status.allocatable.example\.com/rail0}=8"


@pytest.fixture(scope="module")
def client(api_server: Path) -> Iterator[Client]:
    with connect(str(api_server)) as found:
        found.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        found.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NAMESPACE}}
        )
        found.apply(crd("states", "NodeState"))
        yield found


def crd(plural: str, kind: str) -> Object:
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    spec = {"group": "gates.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    metadata = {"name": f"{plural}.gates.example.com"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def put(client: Client, api_version: str, kind: str, name: str, *, status: Any = None, **more: Any) -> None:
    """An object with a status that its operator would write."""
    metadata = {"name": name, **({} if kind == "Node" else {"namespace": NAMESPACE}), **more.pop("metadata", {})}
    one = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    client.apply({**one, **more}, force=True)
    if status is not None:
        head = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
        client.apply({**one, "metadata": head, "status": status}, subresource="/status", manager="operator", force=True)


def pod_template() -> dict[str, Any]:
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "example.com/x:1"}]}}


def operator(client: Client, *conditions: dict[str, str]) -> None:
    spec = {"selector": {"matchLabels": LABELS}, "template": pod_template()}
    put(client, "apps/v1", "Deployment", "operator", spec=spec, status={"conditions": list(conditions)})


def pod(client: Client, name: str, **status: Any) -> None:
    template = pod_template()
    metadata = {"labels": LABELS}
    put(
        client,
        "v1",
        "Pod",
        name,
        metadata=metadata,
        spec=template["spec"] | {"automountServiceAccountToken": False},
        status=status,
    )


def waiting(reason: str, message: str) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {
        "containerStatuses": [
            {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        ]
    }


PODS = "`kubectl get pods --namespace gates` shows whether its operator runs"
AVAILABLE = Wait("deployment/operator", "condition=Available", NAMESPACE)


def test_what_is_not_there_is_told_with_where_to_look(client: Client) -> None:
    assert look(client, Wait("deployment/none", "condition=Available", NAMESPACE)).missing == (
        f"there is no deployment/none in namespace gates yet; {PODS}",
    )
    assert look(client, Wait("states --all", "jsonpath={.status.sync}=Succeeded", NAMESPACE)).missing == (
        f"there is no NodeState in namespace gates yet; {PODS}",
    )
    assert look(client, Wait("tigerastatus/calico", "condition=Available")).missing == (
        (
            "the server serves nothing called tigerastatus; its CRD comes with its operator: "
            "`helm list --all-namespaces` shows whether it is installed"
        ),
    )
    assert look(client, Wait("nodes --selector=fabric=none", ALLOCATABLE)).missing == (
        "no Node has label fabric=none; `kubectl get pods -A` shows who sets it",
    )


def test_a_deployment_is_told_in_the_words_of_its_pods(client: Client) -> None:
    operator(client)
    assert look(client, AVAILABLE).missing == ("Deployment operator: says nothing of Available yet",)
    lacking = {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": "no minimum"}
    operator(client, lacking)
    for number in range(2):
        pod(client, f"pulls-{number}", **waiting("ImagePullBackOff", 'Back-off pulling image "example.com/x:1"'))
    pod(client, "crashes", **waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container"))
    full = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes: full"}
    pod(client, "waits", conditions=[full])
    pod(client, "begins", **waiting("ContainerCreating", ""))
    found = look(client, AVAILABLE)
    assert not found.holds
    assert found.missing[:2] == (
        "Deployment operator: Available is False (MinimumReplicasUnavailable: no minimum)",
        (
            'Deployment operator: 2 pods: ImagePullBackOff: Back-off pulling image "example.com/x:1"; '
            "see that its nodes reach the registry, and that the pull secret is right"
        ),
    )
    assert set(found.missing[2:]) == {
        (
            "Deployment operator: 1 pod: CrashLoopBackOff: back-off 5m0s restarting failed container; "
            "`kubectl logs --previous` of it says why"
        ),
        "Deployment operator: 1 pod: Unschedulable: 0/3 nodes: full; give it a node that fits, or take the taint away",
    }
    operator(client, {**lacking, "status": "True"})
    assert look(client, AVAILABLE).holds


def test_a_workload_whose_pods_are_refused_is_told_so(client: Client) -> None:
    spec = {
        "selector": {"matchLabels": {"app": "agent"}},
        "template": pod_template() | {"metadata": {"labels": {"app": "agent"}}},
    }
    put(
        client,
        "apps/v1",
        "DaemonSet",
        "agent",
        spec=spec,
        status={"numberReady": 0, "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 2},
    )
    about = {"kind": "DaemonSet", "namespace": NAMESPACE, "name": "agent"}
    client.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "refused", "namespace": NAMESPACE},
            "involvedObject": about,
            "reason": "FailedCreate",
            "message": "violates PodSecurity",
            "type": "Warning",
        }
    )
    assert look(client, Wait("daemonset/agent", "jsonpath={.status.numberReady}=2", NAMESPACE)).missing == (
        "DaemonSet agent: numberReady is 0, not 2",
        (
            "DaemonSet agent: 1 pod: FailedCreate: violates PodSecurity; "
            "an admission policy or a quota refuses its pods: label the namespace, or raise the quota"
        ),
    )


def test_many_objects_are_told_by_the_first_few_with_what_their_operator_says(client: Client) -> None:
    for number in range(8):
        status = {"sync": "Failed", "lastSyncError": "no firmware"} if number else {"sync": "Succeeded"}
        put(client, "gates.example.com/v1", "NodeState", f"gpu-{number}", status=status)
    found = look(client, Wait("states --all", "jsonpath={.status.sync}=Succeeded", NAMESPACE))
    assert len(found.missing) == 6
    assert found.missing[0] == "NodeState gpu-1: sync is Failed, not Succeeded (no firmware)"
    assert found.missing[-1] == "and 2 more"
    for number in range(8):
        put(client, "gates.example.com/v1", "NodeState", f"gpu-{number}", status={"sync": "Succeeded"})
    assert look(client, Wait("states --all", "jsonpath={.status.sync}=Succeeded", NAMESPACE)).holds


def test_nodes_are_told_by_what_they_lack(client: Client) -> None:
    metadata = {"labels": {"fabric": "train"}}
    put(client, "v1", "Node", "gpu-0", metadata=metadata, status={"allocatable": {"cpu": "1"}})
    wait = Wait("nodes --selector=fabric=train", ALLOCATABLE)
    assert look(client, wait).missing == ("Node gpu-0: has no example.com/rail0 yet",)
    put(client, "v1", "Node", "gpu-0", metadata=metadata, status={"allocatable": {"example.com/rail0": "7"}})
    assert look(client, wait).missing == ("Node gpu-0: example.com/rail0 is 7, not 8",)
    put(client, "v1", "Node", "gpu-0", metadata=metadata, status={"allocatable": {"example.com/rail0": "8"}})
    assert look(client, wait).holds


def test_a_crd_is_waited_for_by_its_condition(client: Client) -> None:
    wait = Wait("customresourcedefinition/states.gates.example.com", "condition=Established")
    assert look(client, wait).holds
