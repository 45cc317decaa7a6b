"""Conditions of a RailNode and next actions for the outcomes of its host: pure functions."""

from collections.abc import Iterator
from typing import Literal

from trackbed.cluster.resources.conditions import Condition
from trackbed.cluster.resources.railnode import FAILED, PREPARED, Difference, RailNodeSpec
from trackbed.fleet.outcome import Outcome
from trackbed.host.steps.firmware import STEP as FIRMWARE

_MAX_DIFFERENCES = 20
"""Maximum number of listed differences; the message has their total."""
TRIES = 3
"""Number of applies before a person must intervene."""
_MAX_CHARACTERS = 512

NextAction = Literal["wait", "apply", "reboot", "retry"]
"""Wait for a change; apply the plan; reboot the host; retry after a delay."""


def judge_comparison(outcome: Outcome, spec: RailNodeSpec, tries: int) -> tuple[Condition, NextAction]:
    """Return condition and next action for a comparison. `tries`: failed applies of this plan under this permission."""
    if outcome.kind == "same":
        return Condition(PREPARED, "True", "AsPlanned"), "wait"
    if outcome.kind != "differs":
        return Condition(PREPARED, "Unknown", "NotCompared", outcome.told[:_MAX_CHARACTERS]), "retry"
    differences = list(_iter_differences(outcome))
    message = "it differs"
    if differences:
        message = f"{len(differences)} differ: {_format_difference(differences[0])}"[:_MAX_CHARACTERS]
    if not spec.may_change:
        return Condition(PREPARED, "False", "Differs", message), "wait"
    if tries >= TRIES:
        return Condition(PREPARED, "False", FAILED, message), "wait"
    return Condition(PREPARED, "False", "Applying", message), "apply"


def judge_apply(outcome: Outcome, spec: RailNodeSpec, boot: str, tries: int) -> tuple[Condition, NextAction]:
    """Return condition and next action for an apply. `boot` is the current boot; `tries` includes this apply."""
    if outcome.good and not outcome.reboots:
        return Condition(PREPARED, "True", "AsPlanned"), "wait"
    if outcome.good:
        message = "; ".join(map(_format_difference, list_differences(outcome)))[:_MAX_CHARACTERS]
        if spec.may_reboot == boot:
            return Condition(PREPARED, "False", "Rebooting", message), "reboot"
        return Condition(PREPARED, "False", "NeedsReboot", message), "wait"
    if tries >= TRIES:
        return Condition(PREPARED, "False", FAILED, outcome.told[:_MAX_CHARACTERS]), "wait"
    return Condition(PREPARED, "False", "Retrying", outcome.told[:_MAX_CHARACTERS]), "retry"


def list_differences(outcome: Outcome) -> tuple[Difference, ...]:
    """Return the first differences from the plan."""
    return tuple(_iter_differences(outcome))[:_MAX_DIFFERENCES]


def is_firmware_pending(outcome: Outcome, before: bool) -> bool:  # noqa: FBT001 - a fact among facts
    """Return whether the NICs' firmware differs; if the outcome lists no changes, return `before`."""
    changes = outcome.answer.get("changes")
    return before if changes is None else any(change["step"] == FIRMWARE for change in changes)


def _iter_differences(outcome: Outcome) -> Iterator[Difference]:
    for change in outcome.answer.get("changes", ()):
        advice = f"; {change['advice']}" if change.get("advice") else ""
        text = f"{change['what']}: {change['have']} -> {change['want']}{advice}"
        yield Difference(change["step"], text[:_MAX_CHARACTERS])
    if outcome.kind == "differs":
        for path in outcome.answer.get("files", ()):
            yield Difference("files", f"{path} is to be written")


def _format_difference(difference: Difference) -> str:
    return f"{difference.step}: {difference.what}"
