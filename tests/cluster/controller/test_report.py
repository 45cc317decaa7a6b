"""What objects are told: only what is news, in words for a narrow table."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.cluster.controller.test_decide import RULES, START, WANTED, node, rail
from trackbed.cluster.controller.decide import StagedNode, decide
from trackbed.cluster.controller.objects import FabricObject, NodeObject
from trackbed.cluster.controller.report import build_fabric_status, build_refused_status
from trackbed.cluster.controller.report import build_railnode_status as written
from trackbed.cluster.controller.stage import NodeSnapshot, Stage, WaveRules
from trackbed.cluster.resources.conditions import Condition, find_condition
from trackbed.cluster.resources.fabric import FabricStatus

NOW = "2026-01-01T00:00:00Z"


def placed(stage: Stage, why: str = "", **status: Any) -> StagedNode:
    return StagedNode(NodeSnapshot("n0", WANTED, rail(**status), node()), stage, why)


def told(staged: StagedNode, *left: str) -> Condition | None:
    patch = written(staged, left, (), NOW)
    return None if patch is None else msgspec.convert(patch["status"]["conditions"][0], Condition)


@pytest.mark.parametrize(
    ("stage", "why", "left", "message"),
    [
        (Stage.SOUND, "", (), "True Sound "),
        (Stage.WAITING, "8 differ", (), "False Waiting 8 differ"),
        (Stage.DRAINING, "", ("a/b: no",), "False Draining 1 pod left: a/b: no"),
        (Stage.DRAINING, "", ("a/b: no", "c"), "False Draining 2 pods left: a/b: no"),
        (Stage.NEEDS_REBOOT, "kernel", (), "False Rebooting kernel"),
        (Stage.FAILED, "x" * 5000, (), f"False Failed {'x' * 1024}"),
    ],
)
def test_a_stage_is_told_in_a_word_and_a_line(stage: Stage, why: str, left: tuple[str, ...], message: str) -> None:
    condition = told(placed(stage, why), *left)
    assert condition is not None
    assert f"{condition.status} {condition.reason} {condition.message}" == message


def test_what_was_told_is_not_told_again_whatever_the_generation() -> None:
    first = told(placed(Stage.SOUND))
    assert first is not None
    case = placed(Stage.SOUND)
    status = (
        msgspec.structs.replace(case.snapshot.railnode.status, conditions=(first,)) if case.snapshot.railnode else None
    )
    again = msgspec.structs.replace(case.snapshot.railnode, status=status) if case.snapshot.railnode else None
    assert written(case._replace(snapshot=case.snapshot._replace(railnode=again)), (), (), "later") is None


@pytest.mark.parametrize("stage", [Stage.CHECKING, Stage.OUTDATED, Stage.FINISHING])
def test_stages_of_a_moment_are_not_told(stage: Stage) -> None:
    assert told(placed(stage)) is None


RAILS = ("trackbed.dev/rail0", "trackbed.dev/rail1", "trackbed.dev/rail2")


def offering(*rails: int, none_of: int | None = None) -> NodeObject:
    """A node with some rails to give."""
    allocatable = {"cpu": "8", **{RAILS[rail]: "0" if rail == none_of else "8" for rail in rails}}
    body = {"metadata": {"name": "n0", "resourceVersion": "1"}, "status": {"allocatable": allocatable}}
    return msgspec.json.decode(msgspec.json.encode(body), type=NodeObject)


def conditions(
    staged: StagedNode, before: tuple[Condition, ...], resources: tuple[str, ...] = RAILS
) -> list[Condition] | None:
    """What is written of a node, given what its RailNode says so far."""
    held = staged.snapshot.railnode
    assert held is not None
    reported = msgspec.structs.replace(held, status=msgspec.structs.replace(held.status, conditions=before))
    patch = written(staged._replace(snapshot=staged.snapshot._replace(railnode=reported)), (), resources, NOW)
    return None if patch is None else msgspec.convert(patch["status"]["conditions"], list[Condition])


@pytest.mark.parametrize(
    ("there", "message"),
    [
        (offering(0, 1, 2), "True Offered 3 of 3 rails"),
        (offering(0, 2), "False NotOffered 2 of 3 rails: the node's allocatable has no trackbed.dev/rail1"),
        (
            offering(0, 1, 2, none_of=2),
            "False NotOffered 2 of 3 rails: the node's allocatable has no trackbed.dev/rail2",
        ),
        (offering(), "False NotOffered 0 of 3 rails: the node's allocatable has no trackbed.dev/rail0 and 2 more"),
    ],
)
def test_a_node_offers_its_rails_or_the_first_that_it_lacks_is_named(there: NodeObject, message: str) -> None:
    staged = StagedNode(NodeSnapshot("n0", WANTED, rail(), there), Stage.SOUND, "")
    conditions_of_node = conditions(staged, ())
    assert conditions_of_node is not None
    assert [f"{c.status} {c.reason} {c.message}" for c in conditions_of_node] == ["True Sound ", message]
    assert conditions(staged, tuple(conditions_of_node)) is None
    assert conditions(staged, tuple(reversed(conditions_of_node))) is None


def test_rails_are_told_while_an_agent_is_silent_and_what_was_told_of_the_roll_out_stays() -> None:
    whole, lacks = (NodeSnapshot("n0", WANTED, rail(), offering(*rails)) for rails in ((0, 1, 2), (0, 1)))
    before = conditions(StagedNode(whole, Stage.SOUND, ""), ())
    assert before is not None
    after = conditions(StagedNode(lacks, Stage.CHECKING, "its agent has not compared it"), tuple(before))
    assert after is not None
    assert [(c.type, c.status) for c in after] == [("Rolled", "True"), ("RailsOffered", "False")]
    assert conditions(StagedNode(lacks, Stage.CHECKING, ""), ()) is None
    assert conditions(StagedNode(lacks, Stage.FINISHING, ""), tuple(before)) is None


def test_nothing_is_told_of_rails_without_a_node_or_resources() -> None:
    whole = NodeSnapshot("n0", WANTED, rail(), offering(0, 1, 2))
    before = conditions(StagedNode(whole, Stage.SOUND, ""), ())
    assert before is not None
    absent = conditions(StagedNode(whole._replace(node=None), Stage.ABSENT, ""), tuple(before))
    without = conditions(StagedNode(whole, Stage.SOUND, ""), tuple(before), ())
    for condition in (absent, without):
        assert condition is not None
        assert [c.type for c in condition] == ["Rolled"]


def test_a_fabric_counts_the_nodes_that_offer_all_their_rails() -> None:
    snapshots = [
        NodeSnapshot(name, WANTED, rail(), there)
        for name, there in {"n0": offering(0, 1, 2), "n1": offering(1), "n2": None}.items()
    ]
    decision = decide(snapshots, RULES, START)
    counted = build_fabric_status(fabric(), decision, RULES, dict.fromkeys(("n0", "n1", "n2"), RAILS), NOW)
    assert counted.offered == 1
    assert "offered" not in msgspec.to_builtins(build_fabric_status(fabric(), decision, RULES, {}, NOW))
    assert msgspec.to_builtins(counted)["failed"] == 0


def test_nodes_that_offer_alike_share_what_is_kept_of_it() -> None:
    assert offering(0, 1).resources is offering(0, 1).resources
    assert set(offering(0, 1, none_of=1).resources) == {RAILS[0]}


def fabric(**status: Any) -> FabricObject:
    metadata = {"name": "train", "resourceVersion": "1", "generation": 3}
    return msgspec.json.decode(
        msgspec.json.encode({"metadata": metadata, "spec": {}, "status": status}), type=FabricObject
    )


def progress(*snapshots: NodeSnapshot, **rules: Any) -> tuple[FabricStatus, str]:
    own_rules = msgspec.structs.replace(RULES, generation=3, **rules)
    status = build_fabric_status(fabric(), decide(snapshots, own_rules, START), own_rules, {}, NOW)
    condition = find_condition(status.conditions, "Progressing")
    return status, f"{condition.status} {condition.reason} {condition.message}"


SOUND = NodeSnapshot("n0", WANTED, rail(prepared="AsPlanned"), node())
WAITING = NodeSnapshot("n1", WANTED, rail(), node())
FAILED = NodeSnapshot("n2", WANTED, rail(mayChange=True, prepared="Failed"), node(begun=True))
ABSENT = NodeSnapshot("n3", WANTED, rail(), None)


def test_a_fabric_counts_its_nodes_and_says_how_it_goes_on() -> None:
    status, summary = progress(SOUND, WAITING, canary=0)
    assert (status.nodes, status.sound, status.waiting, status.good_generation) == (2, 1, 1, 0)
    assert summary == "True Rolling "
    status, summary = progress(SOUND, ABSENT)
    assert (status.sound, status.absent, status.good_generation, summary) == (1, 1, 3, "False Complete ")
    status, summary = progress(SOUND, FAILED, max_failures=1, canary=0)
    assert (status.failed, summary) == (
        1,
        "False Failed 1 node failed: n2: m; mend it, then kubectl annotate railnode n0 trackbed.dev/retry=",
    )
    taken = NodeSnapshot("n4", WANTED, rail(fabric="other"), node())
    assert progress(SOUND, taken)[1].startswith("False Failed 1 node failed: n4: fabric other has this node")
    assert written(StagedNode(taken, Stage.TAKEN, ""), (), RAILS, NOW) is None
    assert progress(WAITING, FAILED, max_failures=0, canary=0)[1].startswith("False Halted 1 node failed, 0 may")
    flash = NodeSnapshot("n1", WANTED, rail(differsInFirmware=True), node())
    assert progress(flash)[1] == "True Rolling firmware wave: 0 of 1 node"
    assert progress(flash, firmware=WaveRules(1, 1, paused=True))[1].startswith(
        "False Paused firmware wave paused: 1 node"
    )
    assert progress(WAITING, paused=True)[1].startswith("False Paused paused: rollout.paused")


def test_a_fabric_that_cannot_be_planned_keeps_what_was_said_before() -> None:
    before = fabric(nodes=4, sound=4)
    status = build_refused_status(before, "too small", NOW)
    accepted = find_condition(status.conditions, "Accepted")
    assert (status.sound, accepted.status, accepted.message, accepted.observed_generation) == (
        4,
        "False",
        "too small",
        3,
    )
