"""What reviews go by is read from a real API server, and stays in use while it does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient

from tests.cluster.stacks.sites import HEAD, alike
from tests.cluster.webhook.live import make_namespace
from tests.kinds import installed
from tests.waiting import wait_until
from trackbed.cluster.api.client import Client, connect
from trackbed.cluster.api.errors import ApiRefusedError, KubeError, UnreachableError
from trackbed.cluster.api.response import Object
from trackbed.cluster.daemon.tasks import run_until_first_ends
from trackbed.cluster.webhook import cluster_watch
from trackbed.cluster.webhook.cluster_state import ClusterState, Namespace
from trackbed.cluster.webhook.cluster_watch import ClusterWatch
from trackbed.fabric.model.ranges import parse_range

SPEC = {
    "nodes": alike(4, 2),
    "rails": 2,
    "addressing": {"scheme": "shared-subnet", "ipv4": "10.64.0.0/16"},
    "kubernetes": {"stack": "network-operator-macvlan"},
}


def own(kind: str, name: str, spec: dict[str, Any]) -> Object:
    return {"apiVersion": HEAD["apiVersion"], "kind": kind, "metadata": {"name": name}, "spec": spec}


OBJECTS = [
    own("Fabric", "train", SPEC),
    own("Fabric", "full", SPEC | {"addressing": {"scheme": "shared-subnet", "ipv4": "10.64.0.0/29"}}),
    own("Fabric", "services", SPEC | {"addressing": {"scheme": "shared-subnet", "ipv4": "10.0.0.0/20"}}),
    own("RailNode", "gpu-0", {"fabric": "train", "slot": 3}),
]


@pytest.fixture
def filled(client: BlockingClient) -> Iterator[BlockingClient]:
    """The API server with our kinds, and some objects of them; without those afterwards."""
    installed(client)
    for body in OBJECTS:
        client.apply(body)
    client.apply(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"podCIDRs": ["10.200.0.0/24"]}}
    )
    status = {"addresses": [{"type": "InternalIP", "address": "192.0.2.7"}, {"type": "Hostname", "address": "n"}]}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status}
    client.apply(node, subresource="/status", manager="kubelet")
    yield client
    for body in (*OBJECTS, node):
        client.delete(body)


def while_followed(api_server: Path, act: Callable[[ClusterWatch], Awaitable[None]]) -> None:
    """Do something while the cluster is followed."""

    async def run() -> None:
        async with connect(str(api_server)) as live:
            source = ClusterWatch(live)

            async def acted() -> None:
                await source.wait_until_read()
                await act(source)

            await run_until_first_ends(source.follow(), acted())

    asyncio.run(run())


async def until(source: ClusterWatch, holds: Callable[[ClusterState], bool]) -> ClusterState:
    """What is known, once something holds of it."""
    await asyncio.to_thread(wait_until, lambda: source.state and holds(source.state), "the cluster is known so")
    assert source.state is not None
    return source.state


def test_the_cluster_is_known_whole(filled: BlockingClient, api_server: Path) -> None:
    make_namespace(filled, "read", {"trackbed.dev/rails": "2"}, {"team": "a"})

    async def act(source: ClusterWatch) -> None:
        known = source.state
        assert known is not None
        planned = known.fabrics["train"]
        assert (list(known.fabrics), planned.stack.name) == (["train"], "network-operator-macvlan")
        assert {node.name: node.slot for node in planned.plan.nodes}["gpu-0"] == 3
        assert "has room for" in known.broken["full"]
        assert known.broken["services"].startswith("service range 10.0.0.0/24 overlaps")
        assert known.slots["train"]["gpu-0"] == 3
        space = known.namespaces["read"]
        assert (space.annotations["trackbed.dev/rails"], space.labels["team"]) == ("2", "a")
        assert known.ranges.services == (parse_range("10.0.0.0/24"),)
        assert (known.ranges.pods, known.ranges.nodes) == (
            (parse_range("10.200.0.0/24"),),
            (parse_range("192.0.2.7/32"),),
        )

    while_followed(api_server, act)


def test_a_plan_is_made_again_only_when_something_changed(filled: BlockingClient, api_server: Path) -> None:
    async def act(source: ClusterWatch) -> None:
        assert source.state is not None
        first = source.state.fabrics["train"]
        await asyncio.to_thread(make_namespace, filled, "another")
        known = await until(source, lambda known: "another" in known.namespaces)
        assert known.fabrics["train"] is first
        await asyncio.to_thread(filled.apply, own("RailNode", "gpu-1", {"fabric": "train", "slot": 7}))
        known = await until(source, lambda known: "gpu-1" in known.slots["train"])
        assert {node.slot for node in known.fabrics["train"].plan.nodes} >= {3, 7}
        filled.delete(own("RailNode", "gpu-1", {}))

    while_followed(api_server, act)


def test_a_namespace_that_is_not_known_yet_is_asked_for(filled: BlockingClient, api_server: Path) -> None:
    make_namespace(filled, "read", {"trackbed.dev/rails": "2"}, {"team": "a"})

    async def act(source: ClusterWatch) -> None:
        assert (await source.fetch_namespace("read")).annotations == {"trackbed.dev/rails": "2"}
        assert await source.fetch_namespace("nobody-has-this") == Namespace()

    while_followed(api_server, act)


class _Scripted(Client):
    """A cluster that has nothing, or is away."""

    def __init__(self, trouble: KubeError | None) -> None:
        self.trouble = trouble

    async def iter_pages(
        self, path: str, model: type[Any], params: Mapping[str, str], accept: str = ""
    ) -> AsyncIterator[Any]:
        """An empty list."""
        del params, accept
        if self.trouble or "trackbed.dev" in path:
            raise self.trouble or ApiRefusedError(404, "NotFound", "no such kind", path)
        yield msgspec.convert({"metadata": {"resourceVersion": "1"}, "items": []}, model)

    async def iter_lines(self, path: str, params: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Nothing happens."""
        del path, params
        await asyncio.Event().wait()
        yield b""


def test_a_cluster_without_our_kinds_has_no_fabrics() -> None:
    async def run() -> None:
        source = ClusterWatch(_Scripted(None))
        await run_until_first_ends(source.follow(), source.wait_until_read())
        assert source.state == ClusterState()

    asyncio.run(run())


def test_a_cluster_that_cannot_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_watch, "START_SECONDS", 0.05)

    async def run() -> None:
        source = ClusterWatch(_Scripted(UnreachableError("no answer")))
        with pytest.raises(KubeError, match="no answer"):
            await run_until_first_ends(source.follow(), source.wait_until_read())

    asyncio.run(run())


@pytest.mark.parametrize("name", ["../nodes/n", "..%2Fnodes%2Fn", "%2e%2e/nodes/n", "default?pretty=1", ".."])
def test_a_namespace_that_is_a_path_reads_no_other_object(filled: BlockingClient, api_server: Path, name: str) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"secret": "of-the-node"}}}
    filled.apply(node, manager="labels")

    async def read_labels() -> Mapping[str, str]:
        async with connect(str(api_server)) as client:
            return (await ClusterWatch(client).fetch_namespace(name)).labels

    labels: Mapping[str, str] = {}
    with suppress(ApiRefusedError):
        labels = asyncio.run(read_labels())
    assert labels == {}
