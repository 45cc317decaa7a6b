"""What reviews go by is read from a real API server, and stays in use while it does not answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.admission.live import make_namespace
from tests.stacks.sites import HEAD, alike
from trackbed.admission import watching
from trackbed.admission.known import Known
from trackbed.admission.watching import Watched
from trackbed.kube.client import Client, Object
from trackbed.kube.errors import RefusedError, UnknownKindError, UnreachableError
from trackbed.spec.ranges import parse_range

SPEC = {
    "nodes": alike(4, 2),
    "rails": 2,
    "addressing": {"scheme": "shared-subnet", "ipv4": "10.64.0.0/16"},
    "kubernetes": {"stack": "network-operator-macvlan"},
}


def crd(kind: str) -> Object:
    """A CRD that takes any spec."""
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.trackbed.dev"},
        "spec": {
            "group": "trackbed.dev",
            "names": {"kind": kind, "plural": plural},
            "scope": "Cluster",
            "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": schema}],
        },
    }


def own(kind: str, name: str, spec: dict[str, Any]) -> Object:
    return {"apiVersion": HEAD["apiVersion"], "kind": kind, "metadata": {"name": name}, "spec": spec}


OBJECTS = [
    own("Fabric", "train", SPEC),
    own("Fabric", "wrong", SPEC | {"addressing": {"scheme": "shared-subnet", "ipv4": "10.64.0.1/16"}}),
    own("Fabric", "services", SPEC | {"addressing": {"scheme": "shared-subnet", "ipv4": "10.0.0.0/20"}}),
    own("RailNode", "gpu-0", {"fabric": "train", "slot": 3}),
    own("RailNode", "gpu-9", {"fabric": "train"}),
]


@pytest.fixture
def filled(client: Client) -> Iterator[Client]:
    """The API server with our kinds, and some objects of them; without them afterwards."""
    kinds = [crd("Fabric"), crd("RailNode")]
    for one in kinds:
        client.apply(one)
    for one in OBJECTS:
        eventually(client, one)
    client.apply(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"podCIDRs": ["10.200.0.0/24"]}}
    )
    status = {"addresses": [{"type": "InternalIP", "address": "192.0.2.7"}, {"type": "Hostname", "address": "n"}]}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status}
    client.apply(node, subresource="/status", manager="kubelet")
    yield client
    for one in (*OBJECTS, *kinds, node):
        client.delete(one)


def eventually(client: Client, one: Object) -> None:
    """Create an object of a kind that the server is about to serve."""
    for _ in range(200):
        try:
            client.apply(one)
        except (RefusedError, UnknownKindError):
            client.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", "fabrics.trackbed.dev")
            continue
        return
    raise AssertionError(one)


def test_the_cluster_is_read_whole(filled: Client) -> None:
    make_namespace(filled, "read", {"trackbed.dev/rails": "2"}, {"team": "a"})
    known = Watched(filled).read()
    planned = known.fabrics["train"]
    assert (list(known.fabrics), planned.stack.name) == (["train"], "network-operator-macvlan")
    assert {node.name: node.slot for node in planned.plan.nodes}["gpu-0"] == 3
    assert "host bits" in known.broken["wrong"]
    assert known.broken["services"].startswith("service range 10.0.0.0/24 overlaps")
    assert known.slots == {"train": {"gpu-0": 3}}
    assert (known.namespaces["read"].annotations["trackbed.dev/rails"], known.namespaces["read"].labels["team"]) == (
        "2",
        "a",
    )
    assert known.ranges.services == (parse_range("10.0.0.0/24"),)
    assert (known.ranges.pods, known.ranges.nodes) == ((parse_range("10.200.0.0/24"),), (parse_range("192.0.2.7/32"),))


def test_a_cluster_without_our_kinds_has_no_fabrics(client: Client) -> None:
    assert Watched(client).read().fabrics == {}


def test_a_plan_is_made_again_only_when_something_changed(filled: Client) -> None:
    watched = Watched(filled)
    first, second = watched.read(), watched.read()
    assert first.fabrics["train"] is second.fabrics["train"]
    filled.apply(own("RailNode", "gpu-1", {"fabric": "train", "slot": 7}))
    assert {node.slot for node in watched.read().fabrics["train"].plan.nodes} >= {3, 7}
    filled.delete(own("RailNode", "gpu-1", {}))


def test_what_was_read_last_stays_in_use(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watching, "READ_SECONDS", 0.0)
    watched, tries = Watched(client), []
    held = watched.known = watched.read()

    def gone() -> Known:
        tries.append(watched.known)
        if len(tries) == 3:
            monkeypatch.setattr(watching, "READ_SECONDS", 60.0)
            return Known()
        raise UnreachableError("no answer")

    async def until_back() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(watched.follow(), 1)

    monkeypatch.setattr(watched, "read", gone)
    with caplog.at_level(logging.WARNING):
        asyncio.run(until_back())
    assert (tries, watched.known) == ([held] * 3, Known())
    assert [one.getMessage() for one in caplog.records] == [
        "the cluster cannot be read, its last state stays in use: no answer"
    ] * 2
