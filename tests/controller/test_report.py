"""What objects are told: only what is news, in words for a narrow table."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.controller.test_decide import RULES, START, WANTED, node, rail
from trackbed.controller.decide import Placed, decide
from trackbed.controller.objects import Fabric
from trackbed.controller.report import fabric_status, refused, rolled
from trackbed.controller.stage import Stage, Standing, Wave
from trackbed.kube.conditions import Condition, find
from trackbed.kube.fabric import FabricStatus

NOW = "2026-01-01T00:00:00Z"


def placed(stage: Stage, why: str = "", **status: Any) -> Placed:
    return Placed(Standing("n0", WANTED, rail(**status), node()), stage, why)


def told(one: Placed, *left: str) -> Condition | None:
    found = rolled(one, left, NOW)
    return None if found is None else msgspec.convert(found["status"]["conditions"][0], Condition)


@pytest.mark.parametrize(
    ("stage", "why", "left", "said"),
    [
        (Stage.SOUND, "", (), "True Sound "),
        (Stage.WAITING, "8 differ", (), "False Waiting 8 differ"),
        (Stage.DRAINING, "", ("a/b: no",), "False Draining 1 pod left: a/b: no"),
        (Stage.DRAINING, "", ("a/b: no", "c"), "False Draining 2 pods left: a/b: no"),
        (Stage.NEEDS_REBOOT, "kernel", (), "False Rebooting kernel"),
        (Stage.FAILED, "x" * 5000, (), f"False Failed {'x' * 1024}"),
    ],
)
def test_a_stage_is_told_in_a_word_and_a_line(stage: Stage, why: str, left: tuple[str, ...], said: str) -> None:
    found = told(placed(stage, why), *left)
    assert found is not None
    assert f"{found.status} {found.reason} {found.message}" == said


def test_what_was_told_is_not_told_again_whatever_the_generation() -> None:
    first = told(placed(Stage.SOUND))
    assert first is not None
    one = placed(Stage.SOUND)
    status = msgspec.structs.replace(one.standing.rail.status, conditions=(first,)) if one.standing.rail else None
    again = msgspec.structs.replace(one.standing.rail, status=status) if one.standing.rail else None
    assert rolled(one._replace(standing=one.standing._replace(rail=again)), (), "later") is None


@pytest.mark.parametrize("stage", [Stage.CHECKING, Stage.OUTDATED, Stage.FINISHING])
def test_stages_of_a_moment_are_not_told(stage: Stage) -> None:
    assert told(placed(stage)) is None


def fabric(**status: Any) -> Fabric:
    metadata = {"name": "train", "resourceVersion": "1", "generation": 3}
    return msgspec.json.decode(msgspec.json.encode({"metadata": metadata, "spec": {}, "status": status}), type=Fabric)


def progress(*standings: Standing, **rules: Any) -> tuple[FabricStatus, str]:
    own = msgspec.structs.replace(RULES, generation=3, **rules)
    status = fabric_status(fabric(), decide(standings, own, START), own, NOW)
    found = find(status.conditions, "Progressing")
    return status, f"{found.status} {found.reason} {found.message}"


SOUND = Standing("n0", WANTED, rail(prepared="AsPlanned"), node())
WAITING = Standing("n1", WANTED, rail(), node())
FAILED = Standing("n2", WANTED, rail(mayChange=True, prepared="Failed"), node(begun=True))
ABSENT = Standing("n3", WANTED, rail(), None)


def test_a_fabric_counts_its_nodes_and_says_how_it_goes_on() -> None:
    status, said = progress(SOUND, WAITING, canary=0)
    assert (status.nodes, status.sound, status.waiting, status.good_generation) == (2, 1, 1, 0)
    assert said == "True Rolling "
    status, said = progress(SOUND, ABSENT)
    assert (status.sound, status.absent, status.good_generation, said) == (1, 1, 3, "False Complete ")
    status, said = progress(SOUND, FAILED, failures=1, canary=0)
    assert (status.failed, said) == (
        1,
        "False Failed 1 node failed: n2: m; mend it, then kubectl annotate railnode n0 trackbed.dev/retry=",
    )
    taken = Standing("n4", WANTED, rail(fabric="other"), node())
    assert progress(SOUND, taken)[1].startswith("False Failed 1 node failed: n4: fabric other has this node")
    assert rolled(Placed(taken, Stage.TAKEN, ""), (), NOW) is None
    assert progress(WAITING, FAILED, failures=0, canary=0)[1].startswith("False Halted 1 node failed, 0 may")
    flash = Standing("n1", WANTED, rail(differsInFirmware=True), node())
    assert progress(flash)[1] == "True Rolling firmware wave: 0 of 1 node"
    assert progress(flash, firmware=Wave(1, 1, paused=True))[1].startswith("False Paused firmware wave paused: 1 node")
    assert progress(WAITING, paused=True)[1].startswith("False Paused paused: rollout.paused")


def test_a_fabric_that_cannot_be_planned_keeps_what_was_said_before() -> None:
    before = fabric(nodes=4, sound=4)
    status = refused(before, "too small", NOW)
    accepted = find(status.conditions, "Accepted")
    assert (status.sound, accepted.status, accepted.message, accepted.observed_generation) == (
        4,
        "False",
        "too small",
        3,
    )
