"""A RailNode's fabric and slot stay, and a slot belongs to one node."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.webhook.requests import request
from trackbed.cluster.webhook.cluster_state import ClusterState
from trackbed.cluster.webhook.fabrics import decide_railnode as decide

KNOWN = ClusterState(slots={"train": {"gpu-0": 0, "gpu-1": 1}})


def node(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "trackbed.dev/v1alpha1", "kind": "RailNode", "metadata": {"name": name}, "spec": spec}


STAYS = (
    "spec.{} of RailNode gpu-0 stays {}: every address of the node follows from it; delete the RailNode and create "
    "it again to renumber the node"
)
GOOD = {
    "new": (node("gpu-2", fabric="train", slot=2), None),
    "of another fabric": (node("gpu-2", fabric="other", slot=0), None),
    "without a slot yet": (node("gpu-2", fabric="train"), None),
    "given its slot": (node("gpu-2", fabric="train", slot=2), node("gpu-2", fabric="train")),
    "as it was": (node("gpu-0", fabric="train", slot=0, more=1), node("gpu-0", fabric="train", slot=0)),
    "without a spec": ({"metadata": {"name": "gpu-0"}}, None),
}
REFUSED = {
    "another slot": (
        node("gpu-0", fabric="train", slot=5),
        node("gpu-0", fabric="train", slot=0),
        STAYS.format("slot", "0"),
    ),
    "another fabric": (
        node("gpu-0", fabric="other", slot=0),
        node("gpu-0", fabric="train", slot=0),
        STAYS.format("fabric", "'train'"),
    ),
    "no slot any more": (
        node("gpu-0", fabric="train"),
        node("gpu-0", fabric="train", slot=0),
        STAYS.format("slot", "0"),
    ),
    "another's slot": (
        node("gpu-2", fabric="train", slot=1),
        None,
        "slot 1 of Fabric train is node gpu-1's; a slot belongs to one node",
    ),
}


@pytest.mark.parametrize(("body", "before"), GOOD.values(), ids=GOOD)
def test_what_moves_nobody_is_let_in(body: dict[str, Any], before: dict[str, Any] | None) -> None:
    assert decide(request(body, before), KNOWN).refusal is None


@pytest.mark.parametrize(("body", "before", "message"), REFUSED.values(), ids=REFUSED)
def test_what_moves_a_node_is_refused(body: dict[str, Any], before: dict[str, Any] | None, message: str) -> None:
    assert decide(request(body, before), KNOWN).refusal == message
