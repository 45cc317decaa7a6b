"""Whatever kubelets write into Nodes, the webhook reads the cluster, and the Fabrics of others stay usable."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from trackbed_lab.kubernetes.blocking import BlockingClient

from tests.cluster.api.deep import create_deep_object
from tests.cluster.webhook.live import make_namespace
from tests.cluster.webhook.test_cluster_watch import SPEC, own, until, while_followed
from tests.kinds import installed
from trackbed.cluster.webhook import cluster_watch
from trackbed.cluster.webhook.cluster_watch import ClusterWatch
from trackbed.fabric.model.ranges import parse_range

FABRIC = own("Fabric", "honest", SPEC)
GOOD = "192.0.2.99"


@pytest.fixture
def hostile(client: BlockingClient) -> Iterator[BlockingClient]:
    """An API server with a Fabric, and a Node `hostile` that its kubelet may write."""
    installed(client)
    client.apply(FABRIC)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "hostile"}}
    client.apply(node)
    yield client
    client.delete(node)
    client.delete(FABRIC)


def write_addresses(client: BlockingClient, *addresses: str) -> None:
    types = ("InternalIP", "ExternalIP")
    status = {"addresses": [{"type": types[number % 2], "address": text} for number, text in enumerate(addresses)]}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "hostile"}, "status": status}
    client.apply(node, subresource="/status", manager="kubelet", force=True)


ADDRESSES = ["not-an-ip", "", "0.0.0.0/0", "::/0", "10.64.0.5", "1.2.3.4.5", "fe80::1%eth0", "\u0660.0.0.1", "x" * 5000]
"""What a kubelet may claim; the fifth lies in the range of the Fabric."""


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda text: ascii(text)[:20])
def test_no_address_of_a_node_ends_the_webhook_or_breaks_a_fabric(
    hostile: BlockingClient, api_server: Path, address: str
) -> None:
    write_addresses(hostile, GOOD, address)

    async def act(source: ClusterWatch) -> None:
        assert source.state is not None
        assert list(source.state.fabrics) == ["honest"], source.state.broken
        assert parse_range(f"{GOOD}/32") in source.state.ranges.nodes
        assert parse_range("0.0.0.0/0") not in source.state.ranges.nodes

    while_followed(api_server, act)


def test_texts_that_a_kubelet_writes_are_not_kept() -> None:
    tracemalloc.start()
    for number in range(50):
        assert cluster_watch._parse_cidr(f"{number}{'x' * 100_000}") is None  # noqa: SLF001 - kept between the states
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 1_000_000


def test_a_node_with_a_false_address_is_counted_and_gets_an_event(hostile: BlockingClient, api_server: Path) -> None:
    async def act(source: ClusterWatch) -> None:
        await asyncio.to_thread(write_addresses, hostile, "198.51.100.1", "no-address")
        await until(source, lambda state: parse_range("198.51.100.1/32") in state.ranges.nodes)
        await asyncio.to_thread(write_addresses, hostile, "198.51.100.2", "no-address")
        await until(source, lambda state: parse_range("198.51.100.2/32") in state.ranges.nodes)

    while_followed(api_server, act)
    assert REGISTRY.get_sample_value("trackbed_malformed_nodes") == 1
    events = [
        event
        for event in hostile.list("events.k8s.io/v1", "Event", "default")
        if event.get("regarding", {}).get("name") == "hostile" and "no-address" in event["note"]
    ]
    assert [(event["reason"], event["type"]) for event in events] == [("MalformedAddress", "Warning")]


def test_a_node_that_is_nested_without_end_does_not_end_the_webhook(client: BlockingClient, api_server: Path) -> None:
    installed(client)
    client.apply(FABRIC)
    names = [create_deep_object(client, "/api/v1/nodes", "Node", "deep-before")]

    async def act(source: ClusterWatch) -> None:
        assert source.state is not None
        assert list(source.state.fabrics) == ["honest"], source.state.broken
        names.append(await asyncio.to_thread(create_deep_object, client, "/api/v1/nodes", "Node", "deep-meanwhile"))
        await asyncio.to_thread(make_namespace, client, "after-the-deep-node")
        await until(source, lambda state: "after-the-deep-node" in state.namespaces)

    try:
        while_followed(api_server, act)
    finally:
        for body in (FABRIC, *({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in names)):
            client.delete(body)
