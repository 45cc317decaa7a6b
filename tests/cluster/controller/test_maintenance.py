"""Maintenance by others on a real API server: held nodes, whatever operator is installed and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import msgspec
import pytest
from trackbed_lab.kubernetes import crds
from trackbed_lab.kubernetes.agents import Agents
from trackbed_lab.kubernetes.blocking import connect

from tests.api_server import crds_folder, needs_crds
from tests.cluster.controller.test_run import Ground, kubeconfig, scene
from tests.waiting import wait_until
from trackbed.cluster.api import client as kube
from trackbed.cluster.api import reflector
from trackbed.cluster.api.client import Client
from trackbed.cluster.api.response import Object, decode_json
from trackbed.cluster.controller.maintenance import MEDIK8S, NVIDIA, Maintenance, NodeMaintenance
from trackbed.cluster.controller.objects import RAILNODES
from trackbed.cluster.resources.railnode import RETRY, TAINT

__all__ = ["kubeconfig"]

SECONDS = 60.0
STATUS = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
MEDIK8S_CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "nodemaintenances.nodemaintenance.medik8s.io"},
    "spec": {
        "group": "nodemaintenance.medik8s.io",
        "names": {"kind": "NodeMaintenance", "plural": "nodemaintenances"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": STATUS, "status": STATUS}}},
            }
        ],
    },
}
"""As much of the operator's own as is read here; that one is in no Go module that can be fetched."""


def told(**spec: str) -> str:
    """What is said of an object, as its JSON would be read."""
    metadata = {"name": "disk", "uid": "1-2", "resourceVersion": "7"}
    body = {"metadata": metadata, "spec": {"nodeName": "n0", **spec}}
    return decode_json(msgspec.json.encode(body), NodeMaintenance, "x").description


def test_the_object_and_what_it_is_for_are_named() -> None:
    assert told() == "NodeMaintenance disk has it in maintenance"
    assert told(reason="broken") == "NodeMaintenance disk has it in maintenance (broken)"
    assert told(requestorID="nic.example") == "NodeMaintenance disk has it in maintenance (nic.example)"


def test_an_object_that_names_no_node_holds_none() -> None:
    metadata = {"name": "odd", "uid": "1-3", "resourceVersion": "7"}
    odd = [{"metadata": metadata}, {"metadata": metadata, "spec": {}}]
    nodes = [decode_json(msgspec.json.encode(body), NodeMaintenance, "x").spec.node for body in odd]
    assert nodes == ["", ""]
    known = Maintenance(cast("Client", None), lambda: None)
    known.reflectors[0].objects = {"1-3": decode_json(msgspec.json.encode(odd[0]), NodeMaintenance, "x")}
    assert known.describe_nodes() == {}


async def _until(holds: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, holds, "maintenance is as it should be")


def _medik8s(node: str) -> Object:
    kind = {"apiVersion": "nodemaintenance.medik8s.io/v1beta1", "kind": "NodeMaintenance"}
    return {**kind, "metadata": {"name": node}, "spec": {"nodeName": node, "reason": "NIC replacement"}}


def _nvidia(node: str, namespace: str) -> Object:
    kind = {"apiVersion": "maintenance.nvidia.com/v1alpha1", "kind": "NodeMaintenance"}
    metadata = {"name": "same", "namespace": namespace}
    return {**kind, "metadata": metadata, "spec": {"nodeName": node, "requestorID": "nic.example"}}


async def _reason(live: Client, path: str, reason: str) -> None:
    """What NVIDIA's operator says of an object."""
    ready = {"type": "Ready", "status": "False", "reason": reason, "message": ""}
    stamped = {**ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await live.merge(f"{path}/same/status", {"status": {"conditions": [stamped]}})


@needs_crds
@pytest.mark.slow
def test_operators_may_be_installed_at_any_time(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "MAX_BACKOFF_SECONDS", 0.1)

    async def run() -> None:
        messages: list[str] = []
        async with kube.connect(kubeconfig) as live, asyncio.TaskGroup() as group:
            maintenance = Maintenance(live, lambda: None)
            work = [group.create_task(reflector.run(messages.append)) for reflector in maintenance.reflectors]
            async with asyncio.timeout(SECONDS):
                for reflector in maintenance.reflectors:
                    await reflector.synced.wait()
            await asyncio.to_thread(_install, kubeconfig)
            await _both(live, maintenance)
            for task in work:
                task.cancel()
        assert messages == []

    asyncio.run(run())


async def _both(live: Client, maintenance: Maintenance) -> None:
    """An object of the one operator, and two of the other with one name, of which one still waits."""
    await live.create(MEDIK8S, _medik8s("m0"))
    for node, reason in (("a", "Pending"), ("b", "Draining")):
        await live.create("/api/v1/namespaces", {"metadata": {"name": f"ns-{node}"}})
        path = NVIDIA.replace("nodemaintenances", f"namespaces/ns-{node}/nodemaintenances")
        await live.create(path, _nvidia(node, f"ns-{node}"))
        await _reason(live, path, reason)
    await _until(lambda: set(maintenance.describe_nodes()) == {"m0", "b"})
    assert maintenance.describe_nodes()["m0"] == "NodeMaintenance m0 has it in maintenance (NIC replacement)"
    for node in ("a", "b"):
        await live.delete(NVIDIA.replace("nodemaintenances", f"namespaces/ns-{node}/nodemaintenances/same"))
    await live.delete(f"{MEDIK8S}/m0")
    await _until(lambda: not maintenance.describe_nodes())


def _install(kubeconfig: str) -> None:
    with connect(kubeconfig) as client:
        crds.load_crds(client, crds_folder() / "maintenance-operator")
        crds.install_crds(client, [MEDIK8S_CRD])


@needs_crds
@pytest.mark.slow
def test_a_node_in_maintenance_is_left_alone_until_that_is_over(kubeconfig: str) -> None:
    _install(kubeconfig)

    async def act(here: Ground) -> None:
        first, second = here.nodes(2)
        for name in (first, second):
            await here.node(name)
        await here.live.create(MEDIK8S, _medik8s(first))
        await here.fabric(f"{here.name}-[0-1]")
        await here.until(lambda s: s.get("sound") == 1)
        why = await here.stage(first, "Held")
        assert why == f"NodeMaintenance {first} has it in maintenance (NIC replacement); 8 settings differ"
        assert here.agents.hosts[second].changes == 1
        assert not here.agents.hosts[first].changes
        await here.live.delete(f"{MEDIK8S}/{first}")
        await here.complete()

    scene(kubeconfig, act)


@needs_crds
@pytest.mark.slow
def test_a_node_that_has_begun_is_freed_when_others_are_done_with_it(kubeconfig: str) -> None:
    _install(kubeconfig)

    async def act(here: Ground) -> None:
        (only,) = here.nodes(1)
        await here.node(only)

        gate.add(only)
        await here.fabric(only)
        await here.stage(only, "Failed")
        await here.live.create(MEDIK8S, _medik8s(only))
        gate.clear()
        await here.live.merge(f"{RAILNODES}/{only}", {"metadata": {"annotations": {RETRY: ""}}})
        assert "NIC replacement" in await here.stage(only, "Held")
        assert TAINT in await here.taints(only), "though it is as planned"
        assert here.agents.hosts[only].changes == 1
        await here.live.delete(f"{MEDIK8S}/{only}")
        await here.complete()
        assert TAINT not in await here.taints(only)

    gate: set[str] = set()
    agents = Agents(fails=gate.__contains__)
    scene(kubeconfig, act, agents)
