from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trackbed.cluster.resources.railnode import RailNodeSpec
from trackbed.fleet.outcome import Outcome
from trackbed.node.sync.judge import TRIES, is_firmware_pending, judge_apply, judge_comparison, list_differences

SPEC = RailNodeSpec("train", 0, plan_hash="new")
MAY = msgspec.structs.replace(SPEC, may_change=True, may_reboot="this")


def change(**fields: Any) -> dict[str, Any]:
    return {"step": "vfs", "rail": 0, "what": "VFs of rail0", "have": "0", "want": "8", "action": "change", **fields}


def outcome(kind: str, *changes: dict[str, Any], files: tuple[str, ...] = ()) -> Outcome:
    return Outcome("n0", kind, f"told: {kind}", {"changes": list(changes), "files": list(files)})


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
        (outcome("differs", change()), MAY, TRIES, "False Failed 1 differ: vfs: VFs of rail0: 0 -> 8", "wait"),
        (outcome("busy"), MAY, 0, "Unknown NotCompared told: busy", "retry"),
        (outcome("wrong-host"), SPEC, 0, "Unknown NotCompared told: wrong-host", "retry"),
    ],
)
def test_a_comparison_changes_nothing_unless_it_may(
    result: Outcome, spec: RailNodeSpec, tries: int, summary: str, action: str
) -> None:
    condition, does = judge_comparison(result, spec, tries)
    assert (f"{condition.status} {condition.reason} {condition.message}", does) == (summary, action)


@pytest.mark.parametrize(
    ("result", "boot", "tries", "summary", "action"),
    [
        (outcome("applied"), "this", 0, "True AsPlanned ", "wait"),
        (outcome("same"), "this", 0, "True AsPlanned ", "wait"),
        (outcome("applied", change(reboot=True)), "this", 0, "False Rebooting vfs: VFs of rail0: 0 -> 8", "reboot"),
        (outcome("applied", change(reboot=True)), "next", 0, "False NeedsReboot vfs: VFs of rail0: 0 -> 8", "wait"),
        (outcome("left", change()), "this", 1, "False Retrying told: left", "retry"),
        (outcome("failed"), "this", TRIES, "False Failed told: failed", "wait"),
        (outcome("disk-full"), "this", 1, "False Retrying told: disk-full", "retry"),
    ],
)
def test_only_the_boot_that_may_end_is_ended(result: Outcome, boot: str, tries: int, summary: str, action: str) -> None:
    condition, does = judge_apply(result, MAY, boot, tries)
    assert (f"{condition.status} {condition.reason} {condition.message}", does) == (summary, action)


def test_differences_are_few_and_short() -> None:
    result = list_differences(outcome("differs", *[change(what="x" * 9999)] * 50))
    assert len(result) == 20
    assert max(len(difference.what) for difference in result) <= 512


def test_a_difference_says_what_a_person_must_do() -> None:
    (difference,) = list_differences(outcome("differs", change(step="firmware", advice="mlxconfig -y set X=8")))
    assert difference.what == "VFs of rail0: 0 -> 8; mlxconfig -y set X=8"


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
