from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trackbed.cluster.resources.railnode import RailNodeSpec
from trackbed.fleet.outcome import Outcome
from trackbed.node.sync.judge import (
    MAX_TRIES,
    Drift,
    is_firmware_pending,
    judge_apply,
    judge_comparison,
    judge_repair,
    list_differences,
    list_repairs,
)

SPEC = RailNodeSpec("train", 0, plan_hash="new")
REPAIR = msgspec.structs.replace(SPEC, may_repair=True)
PFC = ("qos", "PFC of rail0")
REACHED, CONTESTED = Drift(reached=True), Drift(reached=True, contested=frozenset({PFC}))
MAY = msgspec.structs.replace(SPEC, may_change=True, may_reboot="this")


def change(**fields: Any) -> dict[str, Any]:
    known = {"step": "vfs", "rail": 0, "what": "VFs of rail0", "have": "0", "want": "8", "action": "change"}
    return {**known, "drain": True, **fields}


def drifted(**fields: Any) -> dict[str, Any]:
    """A difference that can be repaired in place."""
    pfc = {"step": "qos", "what": "PFC of rail0", "have": "none", "want": "3", "drain": False, "repairable": True}
    return change(**{**pfc, **fields})


def manual(**fields: Any) -> dict[str, Any]:
    """A difference that apply cannot change."""
    return change(**{"step": "drivers", "what": "module ice", "have": "-", "want": "loaded", "drain": False, **fields})


def outcome(kind: str, *changes: dict[str, Any], files: tuple[str, ...] = ()) -> Outcome:
    return Outcome("n0", kind, f"told: {kind}", {"changes": list(changes), "files": list(files)})


def misfit() -> Outcome:
    differs = outcome("differs", change())
    return msgspec.structs.replace(differs, answer={**differs.answer, "misfit": "34 of 40 would be removed"})


@pytest.mark.parametrize(
    ("result", "spec", "tries", "summary", "action"),
    [
        (outcome("same"), SPEC, 0, "True AsPlanned ", "wait"),
        (outcome("differs", change()), SPEC, 0, "False Differs 1 differ: vfs: VFs of rail0: 0 -> 8", "wait"),
        (
            outcome("differs", files=("/etc/x",)),
            SPEC,
            0,
            "False Differs 1 differ: files: /etc/x is to be written",
            "wait",
        ),
        (outcome("differs", change()), MAY, 0, "False Applying 1 differ: vfs: VFs of rail0: 0 -> 8", "apply"),
        (outcome("differs", change()), MAY, MAX_TRIES, "False Failed 1 differ: vfs: VFs of rail0: 0 -> 8", "wait"),
        (misfit(), SPEC, 0, "False DoesNotFit 34 of 40 would be removed", "wait"),
        (misfit(), MAY, 0, "False DoesNotFit 34 of 40 would be removed", "wait"),
        (
            misfit(),
            msgspec.structs.replace(MAY, allow_removal=True),
            0,
            "False Applying 1 differ: vfs: VFs of rail0: 0 -> 8",
            "apply",
        ),
        (outcome("busy"), MAY, 0, "Unknown NotCompared told: busy", "retry"),
        (outcome("wrong-host"), SPEC, 0, "Unknown NotCompared told: wrong-host", "retry"),
    ],
)
def test_a_comparison_changes_nothing_unless_it_may(
    result: Outcome, spec: RailNodeSpec, tries: int, summary: str, action: str
) -> None:
    condition, does, _ = judge_comparison(result, spec, tries, Drift())
    assert (f"{condition.status} {condition.reason} {condition.message}", does) == (summary, action)


@pytest.mark.parametrize(
    ("result", "boot", "tries", "summary", "action"),
    [
        (outcome("applied"), "this", 0, "True AsPlanned ", "wait"),
        (outcome("same"), "this", 0, "True AsPlanned ", "wait"),
        (outcome("applied", change(reboot=True)), "this", 0, "False Rebooting vfs: VFs of rail0: 0 -> 8", "reboot"),
        (outcome("applied", change(reboot=True)), "next", 0, "False NeedsReboot vfs: VFs of rail0: 0 -> 8", "wait"),
        (outcome("left", change()), "this", 1, "False Retrying told: left", "retry"),
        (outcome("failed"), "this", MAX_TRIES, "False Failed told: failed", "wait"),
        (outcome("disk-full"), "this", 1, "False Retrying told: disk-full", "retry"),
        (outcome("left", manual()), "this", 1, "False Failed told: left", "wait"),
    ],
)
def test_only_the_boot_that_may_end_is_ended(result: Outcome, boot: str, tries: int, summary: str, action: str) -> None:
    condition, does, _ = judge_apply(result, MAY, boot, tries)
    assert (f"{condition.status} {condition.reason} {condition.message}", does) == (summary, action)


@pytest.mark.parametrize(
    ("result", "spec", "drift", "summary", "action", "complete"),
    [
        (outcome("differs", drifted()), REPAIR, REACHED, "Repairing 1 differ: qos: PFC", "repair", False),
        (outcome("differs", files=("/etc/x",)), REPAIR, REACHED, "Repairing 1 differ: files: /etc/x", "repair", False),
        (outcome("differs", drifted(), change()), REPAIR, REACHED, "Repairing 2 differ: qos", "repair", False),
        (outcome("differs", drifted()), SPEC, REACHED, "Drifted 1 differ: qos: PFC", "wait", False),
        (outcome("differs", drifted()), REPAIR, Drift(), "Differs 1 differ: qos: PFC", "wait", False),
        (outcome("differs", change()), REPAIR, REACHED, "Differs 1 differ: vfs", "wait", False),
        (outcome("differs", drifted()), REPAIR, CONTESTED, "Contested 1 differ: qos: PFC", "wait", True),
        (outcome("differs", drifted(), drifted(what="ETS")), REPAIR, CONTESTED, "Repairing 2 differ", "repair", False),
        (outcome("differs", drifted(), change()), REPAIR, CONTESTED, "Differs 2 differ", "wait", False),
        (outcome("differs", manual()), REPAIR, Drift(), "ByHand 1 differ: drivers: module ice", "wait", True),
        (outcome("differs", manual(), change()), REPAIR, Drift(), "Differs 2 differ", "wait", False),
        (outcome("differs", change(), manual(step="firmware", what="firmware of rail0", have="NUM_OF_VFS=0")), REPAIR,
         Drift(), "ByHand 1 differ: firmware: firmware of rail0: NUM_OF_VFS=0", "wait", False),
        (outcome("differs", change(reboot=True, step="firmware")), REPAIR, Drift(), "Differs 1 differ", "wait", False),
        (misfit(), REPAIR, REACHED, "DoesNotFit 34 of 40", "wait", False),
    ],
    ids=["drift", "a drifted file", "drift beside what drains", "no permission", "a new plan", "what drains",
         "contested", "another beside contested", "what drains beside contested", "manual", "manual beside what drains",
         "firmware of a factory", "firmware that a reset completes", "misfit"],
)  # fmt: skip
def test_drift_is_repaired_where_it_stands_and_only_devices_and_new_plans_drain(  # noqa: PLR0913, PLR0917 - a row has these cells
    result: Outcome,
    spec: RailNodeSpec,
    drift: Drift,
    summary: str,
    action: str,
    complete: bool,
) -> None:
    judgement = judge_comparison(result, spec, 0, drift)
    assert f"{judgement.condition.reason} {judgement.condition.message}".startswith(summary)
    assert (judgement.condition.status, judgement.action, judgement.is_complete) == ("False", action, complete)


def test_what_differs_after_a_repair_waits_for_the_next_comparison() -> None:
    again = judge_comparison(outcome("differs", drifted()), REPAIR, 0, REACHED)
    judgement = judge_repair(again, "PFC of rail0: refused")
    assert judgement.action == "wait"
    reason = f"{judgement.condition.reason} {judgement.condition.message}"
    assert reason == "NotRepaired PFC of rail0: refused: 1 differ: qos: PFC of rail0: none -> 3"


def test_only_what_pods_need_not_notice_is_listed_for_repair() -> None:
    result = outcome("differs", drifted(), change(), manual(), files=("/etc/x",))
    assert list_repairs(result) == (PFC, ("files", "/etc/x"))


def test_differences_are_few_and_short() -> None:
    result = list_differences(outcome("differs", *[change(what="x" * 9999)] * 50))
    assert len(result) == 20
    assert max(len(difference.description) for difference in result) <= 512


def test_a_difference_says_what_a_person_must_do() -> None:
    (difference,) = list_differences(outcome("differs", change(step="firmware", advice="mlxconfig -y set X=8")))
    assert difference.description == "VFs of rail0: 0 -> 8; mlxconfig -y set X=8"


@pytest.mark.parametrize(
    ("result", "before", "is_"),
    [
        (outcome("differs", *[change()] * 50, change(step="firmware")), False, True),
        (outcome("differs", change()), True, False),
        (outcome("same"), True, False),
        (Outcome("n0", "timeout", "it did not answer in time"), True, True),
        (Outcome("n0", "timeout", "it did not answer in time"), False, False),
    ],
    ids=["beyond what is listed", "none", "as planned", "silent, as before", "silent"],
)
def test_firmware_is_told_wherever_in_the_list_it_is(result: Outcome, before: bool, is_: bool) -> None:
    assert is_firmware_pending(result, before) is is_
