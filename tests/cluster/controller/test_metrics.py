"""What is counted of a Fabric, and that nothing is told of one that is gone or another's to carry out."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import msgspec
from prometheus_client import REGISTRY

from tests.cluster.controller.test_decide import RULES, WANTED, node, rail
from trackbed.cluster.controller import metrics
from trackbed.cluster.controller.decide import decide
from trackbed.cluster.controller.objects import FabricObject
from trackbed.cluster.controller.stage import NodeSnapshot, Stage

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FABRIC = msgspec.convert(
    {
        "metadata": {"name": "train", "resourceVersion": "1"},
        "spec": msgspec.Raw(b"{}"),
        "status": {"goodGeneration": 7},
    },
    FabricObject,
)


def told(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"trackbed_{name}", {"fabric": "train", **labels})


def look(*, paused: bool = False) -> None:
    snapshots = [
        NodeSnapshot("n0", WANTED, rail(prepared="AsPlanned"), node()),
        NodeSnapshot("n1", WANTED, rail(), node(ready=False)),
        NodeSnapshot("n2", WANTED, rail(), node()),
    ]
    rules = msgspec.structs.replace(RULES, paused=paused)
    metrics.record_decision(FABRIC, decide(snapshots, rules, NOW), rules)


def test_nodes_are_counted_by_stage_and_those_that_take_no_pods() -> None:
    look()
    assert [told("nodes", stage=stage) for stage in (Stage.SOUND, Stage.HELD, Stage.WAITING)] == [1, 1, 1]
    assert told("nodes", stage=Stage.FAILED) == 0
    assert (told("unavailable_nodes"), told("unavailable_nodes_allowed")) == (1, 2)
    assert (told("fabric_generation"), told("fabric_good_generation")) == (1, 7)
    assert (told("fabric_accepted"), told("fabric_halted")) == (1, 0)
    metrics.record_refusal(FABRIC)
    assert told("fabric_accepted") == 0
    look(paused=True)
    assert (told("fabric_accepted"), told("fabric_halted")) == (1, 1)


def test_nothing_is_told_of_a_fabric_that_is_gone_or_by_a_follower() -> None:
    for end in (partial(metrics.remove_fabric_gauges, "train"), metrics.clear_leader_metrics):
        look()
        metrics.LEADER.set(1)
        end()
        assert told("nodes", stage=Stage.SOUND) is None
        assert told("fabric_accepted") is None
    assert REGISTRY.get_sample_value("trackbed_leader") == 0
