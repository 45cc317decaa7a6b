"""Nodes as the controller holds them: equal ones share their resources, and those of the past are not kept."""

from __future__ import annotations

import tracemalloc

import msgspec

from trackbed.cluster.controller.objects import NodeObject


def _decode(allocatable: dict[str, str]) -> NodeObject:
    node = {"metadata": {"name": "node-1", "resourceVersion": "1"}, "status": {"allocatable": allocatable}}
    return msgspec.json.decode(msgspec.json.encode(node), type=NodeObject)


def test_equal_nodes_share_their_extended_resources() -> None:
    first, other = (_decode({"cpu": "64", "nvidia.com/gpu": "8", "rdma/rail0": "0"}) for _ in range(2))
    assert first.resources == {"nvidia.com/gpu": "8"}
    assert first.resources is other.resources


def test_resources_that_a_kubelet_has_replaced_are_not_kept() -> None:
    tracemalloc.start()
    for number in range(20):
        node = _decode({f"{number}.example/{index}": "1" for index in range(2000)})
        assert len(node.resources) == 2000
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 2_000_000
