"""What a host's answer means for its RailNode, and what to do next: functions of values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from trackbed.cluster.resources.conditions import Condition
from trackbed.cluster.resources.railnode import FAILED, PREPARED, Difference, RailNodeSpec
from trackbed.fleet.outcome import Outcome
from trackbed.host.steps.firmware import STEP as FIRMWARE

_SHOWN = 20
"""Differences listed; the message says how many there are."""
TRIES = 3
"""Times an apply is tried before a person must look."""
_LONGEST = 512

NextAction = Literal["rest", "apply", "reboot", "again"]
"""Nothing until something changes; change the host; reboot it; try again after a while."""


def judge_comparison(found: Outcome, spec: RailNodeSpec, tries: int) -> tuple[Condition, NextAction]:
    """What a comparison means. `tries`: how often this plan was applied in vain while the node may be changed."""
    if found.kind == "same":
        return Condition(PREPARED, "True", "AsPlanned"), "rest"
    if found.kind != "differs":
        return Condition(PREPARED, "Unknown", "NotCompared", found.told[:_LONGEST]), "again"
    if not spec.may_change:
        return Condition(PREPARED, "False", "Differs", _differing(found)), "rest"
    if tries >= TRIES:
        return Condition(PREPARED, "False", FAILED, _differing(found)), "rest"
    return Condition(PREPARED, "False", "Applying", _differing(found)), "apply"


def judge_apply(found: Outcome, spec: RailNodeSpec, boot: str, tries: int) -> tuple[Condition, NextAction]:
    """What an apply means; `boot` is the one it was done in, `tries` counts it too."""
    if found.good and not found.reboots:
        return Condition(PREPARED, "True", "AsPlanned"), "rest"
    if found.good:
        why = "; ".join(_told(one) for one in list_differences(found))[:_LONGEST]
        allowed = spec.may_reboot == boot
        reason = "Rebooting" if allowed else "NeedsReboot"
        return Condition(PREPARED, "False", reason, why), "reboot" if allowed else "rest"
    if tries >= TRIES:
        return Condition(PREPARED, "False", FAILED, found.told[:_LONGEST]), "rest"
    return Condition(PREPARED, "False", "Retrying", found.told[:_LONGEST]), "again"


def list_differences(found: Outcome) -> tuple[Difference, ...]:
    """The first few things that are not as planned."""
    return tuple(_differences(found))[:_SHOWN]


def is_firmware_pending(found: Outcome, before: bool) -> bool:  # noqa: FBT001 - a fact among facts
    """Whether the NICs' firmware is among all that differs; as before, where the host did not say what differs."""
    changes = found.answer.get("changes")
    return before if changes is None else any(change["step"] == FIRMWARE for change in changes)


def _differences(found: Outcome) -> Iterator[Difference]:
    for change in found.answer.get("changes", ()):
        advice = f"; {change['advice']}" if change.get("advice") else ""
        yield Difference(change["step"], f"{change['what']}: {change['have']} -> {change['want']}{advice}"[:_LONGEST])
    if found.kind == "differs":
        for path in found.answer.get("files", ()):
            yield Difference("files", f"{path} is to be written")


def _told(one: Difference) -> str:
    return f"{one.step}: {one.what}"


def _differing(found: Outcome) -> str:
    all_ = list(_differences(found))
    return f"{len(all_)} differ: {_told(all_[0])}"[:_LONGEST] if all_ else "it differs"
