"""Pods leave a node that is drained, as their budgets allow."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from prometheus_client import REGISTRY

from tests.cluster.controller.test_run import Ground, kubeconfig, scene
from tests.waiting import wait_for
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.controller.objects import NODES, RAILNODES
from trackbed.cluster.resources.railnode import TAINT

__all__ = ["kubeconfig"]
pytestmark = pytest.mark.slow


def test_pods_leave_by_eviction_and_the_one_that_stays_is_named(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        (only,) = here.nodes(1)
        await here.node(only)
        await _pod(here, "goes", only)
        await _pod(here, "stays", only, labels={"app": here.name})
        await _pod(here, "tolerates-all", only, tolerations=[{"operator": "Exists"}])
        await _pod(here, "ours", only, tolerations=[{"key": TAINT, "operator": "Exists"}])
        selector = {"matchLabels": {"app": here.name}}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": here.name}}
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        await here.live.create(path, {**budget, "spec": {"maxUnavailable": 0, "selector": selector}})
        await here.fabric(only)

        async def read_what_is_left() -> str:
            message = await here.stage(only, "Draining")
            return message if "1 pod left" in message else ""

        message = await wait_for(read_what_is_left, "one pod is left")
        assert message.startswith(f"1 pod left: default/{here.name}-stays: Cannot evict pod")
        assert not here.agents.hosts[only].changes
        assert (REGISTRY.get_sample_value("trackbed_evictions_refused_total") or 0) > 0
        await here.live.delete(f"{path}/{here.name}")
        await here.complete()
        assert here.agents.hosts[only].changes == 1
        assert await _pods_of(here) == {"ours"}  # it says by name that it may be there meanwhile
        await here.live.delete(f"/api/v1/namespaces/default/pods/{here.name}-ours")

    scene(kubeconfig, act)


def test_a_pod_of_two_budgets_keeps_no_other_from_its_eviction(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        (only,) = here.nodes(1)
        await here.node(only)
        await _pod(here, "doubled", only, labels={"app": here.name})
        await _pod(here, "goes", only)
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": here.name}}}
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        for name in (f"{here.name}-a", f"{here.name}-b"):
            budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}}
            await here.live.create(path, {**budget, "spec": spec})
        await here.fabric(only)

        async def read_what_is_left() -> str:
            message = await here.stage(only, "Draining")
            return message if "1 pod left" in message else ""

        message = await wait_for(read_what_is_left, "one pod is left")
        assert message.startswith(f"1 pod left: default/{here.name}-doubled: This pod has more than one")
        for name in (f"{here.name}-a", f"{here.name}-b"):
            await here.live.delete(f"{path}/{name}")
        await here.complete()

    scene(kubeconfig, act)


def test_pods_that_would_not_leave_are_asked_again_after_a_retry(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        (only,) = here.nodes(1)
        await here.node(only)
        await _pod(here, "stays", only, labels={"app": here.name})
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": here.name}}
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        selector = {"matchLabels": {"app": here.name}}
        await here.live.create(path, {**budget, "spec": {"maxUnavailable": 0, "selector": selector}})
        await here.fabric(only)
        await here.stage(only, "Draining")
        long_ago = {"trackbed.dev/preparing-since": "2026-01-01T00:00:00Z"}
        await here.live.merge(f"{NODES}/{only}", {"metadata": {"annotations": long_ago}})
        assert "pods did not leave within 60 minutes" in await here.stage(only, "Failed")
        await here.live.delete(f"{path}/{here.name}")
        await here.live.merge(f"{RAILNODES}/{only}", {"metadata": {"annotations": {"trackbed.dev/retry": ""}}})
        await here.complete()
        assert here.agents.hosts[only].changes == 1

    scene(kubeconfig, act)


async def _pods_of(here: Ground) -> set[str]:
    listing = await here.live.get("/api/v1/namespaces/default/pods", dict[str, Any])
    names = (item["metadata"]["name"] for item in listing["items"])
    return {name.removeprefix(f"{here.name}-") for name in names if name.startswith(f"{here.name}-")}


async def _pod(
    here: Ground,
    name: str,
    node: str,
    labels: dict[str, str] | None = None,
    tolerations: list[dict[str, str]] | None = None,
) -> None:
    """A running pod on a node; without a kubelet it is gone as soon as it is deleted with no grace."""
    metadata = {"name": f"{here.name}-{name}", "namespace": "default", "labels": labels or {}}
    spec = {
        "nodeName": node,
        "tolerations": tolerations or [],
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "i"}],
        "automountServiceAccountToken": False,
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    pods = "/api/v1/namespaces/default/pods"
    with suppress(ApiRefusedError):  # another test made it
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": "default"},
        }
        await here.live.create("/api/v1/namespaces/default/serviceaccounts", account)
    await here.live.create(pods, body)
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    kind = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": metadata["name"]}}
    await here.live.apply(f"{pods}/{metadata['name']}/status", {**kind, "status": running}, "kubelet")
