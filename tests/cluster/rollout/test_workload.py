"""Why pods are not there, on a real API server: each reason once, with how many pods have it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.cluster.objects import daemon_set, failed_create, pod, put, template, waiting
from trackbed.cluster.rollout.workload import explain_missing_pods

NAMESPACE = "gates"


@pytest.fixture(scope="module")
def client(api_server: Path) -> Iterator[BlockingClient]:
    with connect(str(api_server)) as blocking_client:
        blocking_client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        blocking_client.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NAMESPACE}}
        )
        yield blocking_client


def told(client: BlockingClient, kind: str, name: str) -> list[str]:
    workload = client.get("apps/v1", kind, name, NAMESPACE)
    return client.run(explain_missing_pods(client.dynamic, workload))


def deployment(client: BlockingClient, name: str, replicas: int) -> None:
    labels = {"app": name}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template(labels)}
    put(client, "Deployment", name, spec=spec)


def ended(reason: str, code: int, message: str = "") -> dict[str, Any]:
    state = {"terminated": {"reason": reason, "exitCode": code, "message": message}}
    container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    return {"containerStatuses": [container]}


def test_the_reason_of_most_pods_comes_first_and_pods_that_begin_or_end_are_none(client: BlockingClient) -> None:
    deployment(client, "mixed", 5)
    labels = {"app": "mixed"}
    pod(client, "mixed-0", ended("OOMKilled", 137), labels)
    for number in range(1, 3):
        pod(client, f"mixed-{number}", ended("Error", 1, "no /etc/trackbed"), labels)
    pod(client, "mixed-3", waiting("ContainerCreating", ""), labels)
    pod(client, "mixed-4", ended("Completed", 0), labels)
    assert told(client, "Deployment", "mixed") == [
        (
            "2 pods, the first mixed-1: Error: exit status 1 no /etc/trackbed; "
            "`kubectl logs --previous --namespace gates mixed-1` says why"
        ),
        "pod mixed-0: OOMKilled: exit status 137; raise its memory limit",
    ]


REFUSED = "an admission policy or a quota refuses its pods: label the namespace, or raise the quota"


def test_refused_pods_are_counted_by_those_that_are_missing_not_by_events(client: BlockingClient) -> None:
    daemon_set(client, "refused", 5, 2, 2)
    for number in range(2):
        pod(client, f"refused-{number}", {"phase": "Running"}, {"app": "refused"})
    about = {"kind": "DaemonSet", "name": "refused"}
    for minute in range(9):
        message = f'pods "refused-{minute}" is forbidden: violates PodSecurity'
        failed_create(client, f"refused-{minute}", about, message, f"2026-01-01T00:0{minute}:00Z")
    assert told(client, "DaemonSet", "refused") == [
        f'3 pods: FailedCreate: pods "refused-8" is forbidden: violates PodSecurity; {REFUSED}'
    ]


def test_a_deployment_is_refused_its_pods_by_its_replicaset_and_not_by_one_of_a_longer_name(
    client: BlockingClient,
) -> None:
    for name in ("web", "web-api"):
        deployment(client, name, 2)
    about = {"kind": "ReplicaSet", "name": "web-api-5d9c8"}
    failed_create(client, "web-api", about, "exceeded quota", "2026-01-01T00:00:00Z")
    assert told(client, "Deployment", "web") == []
    assert told(client, "Deployment", "web-api") == [f"2 pods: FailedCreate: exceeded quota; {REFUSED}"]


def test_refusals_of_before_are_not_told_once_all_pods_are_there(client: BlockingClient) -> None:
    deployment(client, "mended", 1)
    failed_create(client, "mended", {"kind": "ReplicaSet", "name": "mended-1"}, "no", "2026-01-01T00:00:00Z")
    pod(client, "mended-1", {"phase": "Running"}, {"app": "mended"})
    assert told(client, "Deployment", "mended") == []
