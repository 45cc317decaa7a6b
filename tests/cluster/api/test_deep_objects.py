"""Objects that are nested without end stop no reader: whoever writes an object also writes its managedFields."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient
from trackbed_lab.kubernetes.blocking import connect as connect_blocking

from tests.cluster.api.deep import build_deep_json, create_deep_object
from trackbed.cluster.api.client import connect
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.api.metadata import PartialObject
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.api.response import Object, decode_json
from trackbed.cluster.daemon.tasks import run_until_first_ends

SECONDS = 60.0
NODES = "/api/v1/nodes"


@pytest.fixture(scope="module")
def client(api_server: Path) -> Iterator[BlockingClient]:
    with connect_blocking(str(api_server)) as blocking_client:
        yield blocking_client


@pytest.fixture
def deep(client: BlockingClient) -> Iterator[str]:
    """The name of a node with deep managedFields."""
    yield create_deep_object(client, NODES, "Node", "deep-before")
    for name in ("deep-before", "deep-meanwhile"):
        client.delete({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})


def test_a_reflector_lists_and_watches_deep_objects(client: BlockingClient, api_server: Path, deep: str) -> None:
    async def wait_for_nodes(reflector: Reflector[PartialObject], changed: asyncio.Event) -> None:
        await reflector.synced.wait()
        assert deep in reflector.objects
        await asyncio.to_thread(create_deep_object, client, NODES, "Node", "deep-meanwhile")
        while "deep-meanwhile" not in reflector.objects:
            changed.clear()
            await changed.wait()

    async def run() -> None:
        changed = asyncio.Event()
        async with connect(str(api_server)) as live:
            reflector = Reflector(live, NODES, PartialObject, changed.set)
            work = reflector.run(pytest.fail)
            async with asyncio.timeout(SECONDS):
                await run_until_first_ends(work, wait_for_nodes(reflector, changed))

    asyncio.run(run())


def test_a_command_reads_deep_objects(client: BlockingClient, deep: str) -> None:
    assert client.get("v1", "Node", deep)["metadata"]["name"] == deep
    assert deep in {item["metadata"]["name"] for item in client.list("v1", "Node")}


def test_only_what_is_too_deep_is_left_out() -> None:
    text = rb'{"a": [1, {"b": "\"}]\\"}], "deep": %s, "after": {"c": [2]}}' % build_deep_json(50_000)
    decoded = decode_json(text, Object, "x")
    assert (decoded["a"], decoded["after"]) == ([1, {"b": '"}]\\'}], {"c": [2]})
    assert decode_json(b"[" * 3000 + b"]" * 3000, msgspec.Raw, "x")


@pytest.mark.parametrize("text", [b'{"a":' * 3000, b'{"a":' * 3000 + b"]" * 3000, b"[" * 3000 + b'"'])
def test_what_is_deep_and_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(KubeError):
        decode_json(text, Object, "x")
